mock_provider "aws" {
  mock_resource "aws_acm_certificate" {
    defaults = {
      domain_validation_options = [
        { domain_name = "api.example.com", resource_record_name = "_a.example.com", resource_record_type = "CNAME", resource_record_value = "a" },
        { domain_name = "us.api.example.com", resource_record_name = "_b.example.com", resource_record_type = "CNAME", resource_record_value = "b" },
        { domain_name = "eu.api.example.com", resource_record_name = "_c.example.com", resource_record_type = "CNAME", resource_record_value = "c" },
      ]
    }
  }
}

variables {
  zone_id = "Z0123456789ABC"
  host    = "api.example.com"
  regions = {
    us = { aws_region = "us-east-1", lb_arn = "lb-us", lb_dns_name = "us.elb", lb_zone_id = "ZUS", target_group_arn = "tg-us" }
    eu = { aws_region = "eu-west-1", lb_arn = "lb-eu", lb_dns_name = "eu.elb", lb_zone_id = "ZEU", target_group_arn = "tg-eu" }
  }
}

run "two_regions" {
  assert {
    condition     = alltrue([for r in aws_route53_record.nearest : r.alias[0].evaluate_target_health]) && aws_route53_record.nearest["eu"].latency_routing_policy[0].region == "eu-west-1"
    error_message = "Latency records that evaluate the health of their targets."
  }
  assert {
    condition     = alltrue([for name, h in aws_route53_health_check.region : h.resource_path == "/readyz" && h.type == "HTTPS" && h.fqdn == "${name}.api.example.com"])
    error_message = "A health check asks each region for its readiness, by its own name."
  }
  assert {
    condition     = alltrue([for name, r in aws_route53_record.nearest : r.health_check_id == aws_route53_health_check.region[name].id])
    error_message = "Route 53 does not answer with a region that is not ready."
  }
  assert {
    condition     = alltrue([for l in aws_lb_listener.https : l.port == 443 && l.protocol == "HTTPS"])
    error_message = "Nothing listens in clear text."
  }
  assert {
    condition     = length(aws_route53_record.proof) == 3 && output.seconds_until_gone == 80
    error_message = "One proof for each name, and the time until DNS drops a lost region."
  }
}

run "refuses_two_in_one_aws_region" {
  command = plan
  variables {
    regions = {
      us  = { aws_region = "us-east-1", lb_arn = "a", lb_dns_name = "a", lb_zone_id = "Z", target_group_arn = "t" }
      us2 = { aws_region = "us-east-1", lb_arn = "b", lb_dns_name = "b", lb_zone_id = "Z", target_group_arn = "t" }
    }
  }
  expect_failures = [var.regions]
}
