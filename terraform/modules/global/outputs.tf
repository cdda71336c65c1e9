output "url" {
  description = "What merchants call."
  value       = "https://${var.host}"
  depends_on  = [aws_lb_listener.https, aws_route53_record.nearest]
}

output "region_urls" {
  description = "Each region by its own name."
  value       = { for name, host in local.names : name => "https://${host}" }
}

output "health_check_ids" {
  description = "Health checks by region, for alarms on HealthCheckStatus."
  value       = { for name, h in aws_route53_health_check.region : name => h.id }
}

output "seconds_until_gone" {
  description = "How long clients may be sent to a lost region: checks that must fail, and the 60 s that an alias to a load balancer is remembered."
  value       = var.health.interval * var.health.threshold + 60
}
