variable "zone_id" {
  description = "The public Route 53 zone of host. You own the zone: this module does not create it, because others know its name servers."
  type        = string
  validation {
    condition     = can(regex("^Z[A-Z0-9]+$", var.zone_id))
    error_message = "zone_id: as Z0123456789ABC."
  }
}

variable "host" {
  description = "The name that merchants call, such as api.example.com. Each region also has a name of its own under it, such as us-east-1.api.example.com."
  type        = string
  validation {
    condition     = can(regex("^([a-z0-9]([a-z0-9-]*[a-z0-9])?\\.)+[a-z]{2,}$", var.host))
    error_message = "host: a DNS name in lower case, without a dot at its end."
  }
}

variable "regions" {
  description = "Regions that serve, by Homeward's names: output entry of modules/region. DNS stops answering with a region that you remove here."
  type = map(object({
    aws_region       = string
    lb_arn           = string
    lb_dns_name      = string
    lb_zone_id       = string
    target_group_arn = string
  }))
  validation {
    condition     = length(var.regions) > 0 && length(distinct([for r in var.regions : r.aws_region])) == length(var.regions)
    error_message = "regions: one at least, and each in an AWS region of its own, as Route 53 has one latency record for each."
  }
}

variable "health" {
  description = "Route 53's health checks: seconds between two of one checker (10 or 30), and how many must agree in a row."
  type        = object({ interval = optional(number, 10), threshold = optional(number, 2) })
  default     = {}
  validation {
    condition     = contains([10, 30], var.health.interval) && var.health.threshold >= 1 && var.health.threshold <= 10
    error_message = "health: interval 10 or 30, threshold from 1 to 10."
  }
}

variable "ssl_policy" {
  description = "TLS versions and ciphers of the public listeners; see AWS, \"Security policies for your Application Load Balancer\"."
  type        = string
  default     = "ELBSecurityPolicy-TLS13-1-2-2021-06"
  validation {
    condition     = startswith(var.ssl_policy, "ELBSecurityPolicy-TLS13-")
    error_message = "ssl_policy: one that has TLS 1.3, as API keys travel here."
  }
}

variable "tags" {
  description = "Tags of all resources of this module."
  type        = map(string)
  default     = {}
}
