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
  description = "URL of an existing database, without user and password; \"\" creates one."
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
  description = "URLs for the secrets database and database-owner; replace USER and PASSWORD."
  value       = module.database.url_templates
}

output "ca" {
  description = "The database's CA."
  value       = module.database.ca
}
