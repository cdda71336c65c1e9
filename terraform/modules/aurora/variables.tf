variable "name" {
  description = "Name of the deployment."
  type        = string
  default     = "homeward"
  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,19}$", var.name))
    error_message = "name: 2 to 20 lower-case letters, digits and hyphens, a letter first."
  }
}

variable "primary" {
  description = "The region with the server that writes: AWS region, network, its machines' security group, and private subnets."
  type        = object({ aws_region = string, vpc_id = string, nodes_security_group_id = string, subnet_ids = list(string) })
}

variable "standby" {
  description = "The region for a switchover of the database; null for none."
  type        = object({ aws_region = string, vpc_id = string, nodes_security_group_id = string, subnet_ids = list(string) })
  default     = null
  validation {
    condition     = var.standby == null || try(var.standby.aws_region != var.primary.aws_region, true)
    error_message = "standby: another AWS region than the primary's."
  }
}

variable "engine_version" {
  description = "Version of Aurora PostgreSQL, 15 or newer (docs/DATABASE.md)."
  type        = string
  default     = "16.6"
  validation {
    condition     = can(regex("^(1[5-9]|[2-9][0-9])\\.[0-9]+$", var.engine_version))
    error_message = "engine_version: 15.0 or newer, with its minor version, as 16.6."
  }
}

variable "instance" {
  description = "Class of the servers, and their number in each region: two or more, in different zones."
  type        = object({ class = optional(string, "db.r7g.large"), count = optional(number, 2) })
  default     = {}
  validation {
    condition     = var.instance.count >= 2
    error_message = "instance.count: two or more, so that a lost zone is a failover and no outage."
  }
}

variable "master_password" {
  description = "Password of the first user. Ephemeral: it is neither in the plan nor in the state. A change of master_password_version sets it."
  type        = string
  ephemeral   = true
  sensitive   = true
  validation {
    condition     = length(var.master_password) >= 24
    error_message = "master_password: 24 characters or more."
  }
}

variable "master_password_version" {
  description = "Increment it to set another password."
  type        = number
  default     = 1
}

variable "backup_days" {
  description = "For how many days to keep backups."
  type        = number
  default     = 30
  validation {
    condition     = var.backup_days >= 7 && var.backup_days <= 35
    error_message = "backup_days: 7 to 35."
  }
}

variable "deletion_protection" {
  description = "Refuse to delete the database."
  type        = bool
  default     = true
}

variable "tags" {
  description = "Tags of all resources of this module."
  type        = map(string)
  default     = {}
}
