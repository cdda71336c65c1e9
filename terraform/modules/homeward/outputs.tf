output "values" {
  description = "The chart's values for Helm, without secrets."
  value       = concat([yamlencode(local.base)], var.values)
}

output "status" {
  description = "Helm's description of the release."
  value       = helm_release.homeward.status
}
