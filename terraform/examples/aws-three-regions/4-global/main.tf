# Names, certificates, listeners and health checks. Without this layer no request gets in.
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
  config  = { path = "${path.module}/../2-regions/terraform.tfstate" }
}

module "global" {
  source  = "../../../modules/global"
  zone_id = var.zone_id
  host    = var.host
  regions = data.terraform_remote_state.regions.outputs.entries
}

output "url" {
  description = "The name that merchants call."
  value       = module.global.url
}

output "region_urls" {
  description = "The name of each region."
  value       = module.global.region_urls
}
