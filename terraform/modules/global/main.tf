locals {
  names = { for name, r in var.regions : name => "${name}.${var.host}" }
}

# Each region ends TLS for the common name and for its own, with a certificate of its own.
resource "aws_acm_certificate" "this" {
  for_each                  = var.regions
  region                    = each.value.aws_region
  domain_name               = var.host
  subject_alternative_names = [local.names[each.key]]
  validation_method         = "DNS"
  tags                      = merge(var.tags, { Name = local.names[each.key] })
  lifecycle {
    create_before_destroy = true
  }
}

# ACM requires the same record for a name in every region of an account, so there is one record
# for each name, and not for each certificate.
locals {
  proofs = merge([for certificate in aws_acm_certificate.this : {
    for option in certificate.domain_validation_options : option.domain_name => option
  }]...)
}

resource "aws_route53_record" "proof" {
  for_each        = toset(concat([var.host], values(local.names)))
  zone_id         = var.zone_id
  name            = local.proofs[each.key].resource_record_name
  type            = local.proofs[each.key].resource_record_type
  records         = [local.proofs[each.key].resource_record_value]
  ttl             = 300
  allow_overwrite = true
}

resource "aws_acm_certificate_validation" "this" {
  for_each                = var.regions
  region                  = each.value.aws_region
  certificate_arn         = aws_acm_certificate.this[each.key].arn
  validation_record_fqdns = [aws_route53_record.proof[var.host].fqdn, aws_route53_record.proof[local.names[each.key]].fqdn]
}

# There is no listener on port 80: a request in clear text has already disclosed its API key.
resource "aws_lb_listener" "https" {
  for_each          = var.regions
  region            = each.value.aws_region
  load_balancer_arn = each.value.lb_arn
  port              = 443
  protocol          = "HTTPS"
  ssl_policy        = var.ssl_policy
  certificate_arn   = aws_acm_certificate_validation.this[each.key].certificate_arn
  tags              = var.tags
  default_action {
    type             = "forward"
    target_group_arn = each.value.target_group_arn
  }
}

# The name of each region, for health checks, and for clients that choose a region themselves.
resource "aws_route53_record" "region" {
  for_each = var.regions
  zone_id  = var.zone_id
  name     = local.names[each.key]
  type     = "A"
  alias {
    name                   = each.value.lb_dns_name
    zone_id                = each.value.lb_zone_id
    evaluate_target_health = false
  }
}

# The check comes from outside and through TLS, as merchants do. A drained region fails it.
resource "aws_route53_health_check" "region" {
  for_each          = var.regions
  type              = "HTTPS"
  fqdn              = local.names[each.key]
  port              = 443
  resource_path     = "/readyz"
  request_interval  = var.health.interval
  failure_threshold = var.health.threshold
  enable_sni        = true
  measure_latency   = true
  tags              = merge(var.tags, { Name = local.names[each.key] })
}

# Route 53 answers with the nearest healthy region. If none is healthy it answers as if all were,
# and nodes answer 503.
resource "aws_route53_record" "nearest" {
  for_each        = var.regions
  zone_id         = var.zone_id
  name            = var.host
  type            = "A"
  set_identifier  = each.key
  health_check_id = aws_route53_health_check.region[each.key].id
  alias {
    name                   = each.value.lb_dns_name
    zone_id                = each.value.lb_zone_id
    evaluate_target_health = true
  }
  latency_routing_policy {
    region = each.value.aws_region
  }
}
