variable "a" {
  description = "One region: output network of modules/region."
  type = object({
    region                   = string
    aws_region               = string
    vpc_id                   = string
    cidr                     = string
    route_table_ids          = map(string)
    nodes_security_group_id  = string
    gossip_security_group_id = string
  })
}

variable "b" {
  description = "The other region: output network of modules/region."
  type = object({
    region                   = string
    aws_region               = string
    vpc_id                   = string
    cidr                     = string
    route_table_ids          = map(string)
    nodes_security_group_id  = string
    gossip_security_group_id = string
  })
  validation {
    # Both are /16, so they overlap only if they are equal.
    condition     = var.a.cidr != var.b.cidr && var.a.region != var.b.region
    error_message = "a and b: two regions have two names, and networks that do not overlap."
  }
}

variable "ports" {
  description = "Ports of nodes, as the chart's ports."
  type        = object({ rpc = optional(number, 7081), gossip = optional(number, 7946) })
  default     = {}
}

variable "tags" {
  description = "Tags of all resources of this module."
  type        = map(string)
  default     = {}
}
