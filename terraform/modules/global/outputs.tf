output "url" {
  description = "The name that merchants call."
  value       = "https://${var.host}"
  depends_on  = [aws_lb_listener.https, aws_route53_record.nearest]
}

output "region_urls" {
  description = "The name of each region."
  value       = { for name, host in local.names : name => "https://${host}" }
}

output "health_check_ids" {
  description = "Health checks by region, for alarms on HealthCheckStatus."
  value       = { for name, h in aws_route53_health_check.region : name => h.id }
}

output "seconds_until_gone" {
  description = "How long DNS may send clients to a lost region: the checks that must fail, and the 60 s for which resolvers cache an alias to a load balancer."
  value       = var.health.interval * var.health.threshold + 60
}
