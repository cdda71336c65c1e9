# The name leads to the one region that serves. DNS does not answer with the standby, as its
# database does not write.
terraform {
  required_version = ">= 1.11"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 6.66"
    }
  }
}

provider "aws" {
  region = "us-east-1"
}

variable "serving" {
  description = "The region with the database that writes, as in 2-homeward."
  type        = string
  default     = "us-east-1"
}

variable "zone_id" {
  description = "The public Route 53 zone of host."
  type        = string
}

variable "host" {
  description = "The name that merchants call, such as api.example.com."
  type        = string
}

data "terraform_remote_state" "regions" {
  backend = "local"
  config  = { path = "${path.module}/../1-regions/terraform.tfstate" }
}

module "global" {
  source  = "../../../modules/global"
  zone_id = var.zone_id
  host    = var.host
  regions = { (var.serving) = data.terraform_remote_state.regions.outputs.entries[var.serving] }
}

output "url" {
  description = "The name that merchants call."
  value       = module.global.url
}

output "region_urls" {
  description = "The name of each region."
  value       = module.global.region_urls
}
