# CockroachDB in three regions. export COCKROACH_API_KEY=…
terraform {
  required_version = ">= 1.11"
  required_providers {
    cockroach = {
      source  = "cockroachdb/cockroach"
      version = "~> 1.22"
    }
  }
}

variable "existing_url" {
  description = "A database that is there, without user and password; \"\" makes one."
  type        = string
  default     = ""
}

module "database" {
  source       = "../../../modules/database"
  existing_url = var.existing_url
  regions      = { us-east-1 = {}, eu-west-1 = {}, ap-northeast-1 = {} }
}

output "cluster_id" {
  description = "The cluster, for the acceptance of endpoints."
  value       = module.database.cluster_id
}

output "endpoints" {
  description = "Private endpoint services, by AWS region."
  value       = module.database.endpoints
}

output "url_templates" {
  description = "What the secrets database and database-owner hold, once USER and PASSWORD are put in."
  value       = module.database.url_templates
}

output "ca" {
  description = "The database's CA."
  value       = module.database.ca
}
