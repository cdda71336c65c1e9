output "values" {
  description = "The chart's values as they are given to Helm, without secrets."
  value       = concat([yamlencode(local.base)], var.values)
}

output "status" {
  description = "What Helm says of the release."
  value       = helm_release.homeward.status
}
