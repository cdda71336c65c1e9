variable "name" {
  description = "Name of the database, and of the cluster if this module creates one."
  type        = string
  default     = "homeward"
  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{5,19}$", var.name))
    error_message = "name: 6 to 20 lower-case letters, digits and hyphens, a letter first, as CockroachDB Cloud wants it."
  }
}

variable "existing_url" {
  description = "URL of an existing database, without user and password: postgresql://host:port/name?sslmode=verify-full. With a standby that may take over: postgresql://a:5432,b:5432/name?sslmode=verify-full&target_session_attrs=read-write. \"\": the module creates a cluster in CockroachDB Cloud. User and password belong into the secret database, not into Terraform's state."
  type        = string
  default     = ""
  validation {
    condition     = var.existing_url == "" || can(regex("^postgresql://[^/@]+/[A-Za-z0-9_-]+\\?", var.existing_url))
    error_message = "existing_url: postgresql://HOST:PORT/NAME?…, without USER:PASSWORD@, which would stand in the state."
  }
  validation {
    condition     = var.existing_url == "" || can(regex("[?&]sslmode=verify-full(&|$)", var.existing_url))
    error_message = "existing_url: nodes refuse a database on another machine without sslmode=verify-full, see docs/DATABASE.md."
  }
}

variable "regions" {
  description = "Where to create a cluster: AWS regions and the database's nodes in each. Three regions, for a majority without one of them."
  type        = map(object({ nodes = optional(number, 3) }))
  default     = {}
  validation {
    condition     = var.existing_url != "" || (length(var.regions) >= 3 && alltrue([for r in var.regions : r.nodes >= 3]))
    error_message = "regions: three or more, of three nodes or more: two regions have no majority when one is lost, see docs/DATABASE.md."
  }
}

variable "machine" {
  description = "Of each of the database's nodes: processors, and GiB of storage. docs/SIZING.md has the formula."
  type        = object({ vcpus = optional(number, 8), storage_gib = optional(number, 500) })
  default     = {}
  validation {
    condition     = var.machine.vcpus >= 4 && var.machine.storage_gib >= 15
    error_message = "machine: four processors and 15 GiB at least."
  }
}

variable "cockroach_version" {
  description = "Major version, of those that Homeward is checked with (docs/DATABASE.md). Raising it is an upgrade."
  type        = string
  default     = "v25.4"
  validation {
    condition     = can(regex("^v[0-9]{2}\\.[1-4]$", var.cockroach_version))
    error_message = "cockroach_version: as v25.4."
  }
}

variable "backups" {
  description = "How often to make backups, in minutes, and for how many days to keep them; the second cannot be changed later."
  type        = object({ every_minutes = optional(number, 60), days = optional(number, 30) })
  default     = {}
  validation {
    condition     = contains([5, 10, 15, 30, 60, 240, 1440], var.backups.every_minutes) && contains([2, 7, 30, 90, 365], var.backups.days)
    error_message = "backups: every_minutes 5, 10, 15, 30, 60, 240 or 1440; days 2, 7, 30, 90 or 365."
  }
}

variable "delete_protection" {
  description = "Refuse to delete the cluster."
  type        = bool
  default     = true
}

variable "labels" {
  description = "Labels of the cluster."
  type        = map(string)
  default     = {}
}
