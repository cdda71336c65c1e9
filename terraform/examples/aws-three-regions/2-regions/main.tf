# Networks, clusters, load balancers, secrets and buckets of three regions.
terraform {
  required_version = ">= 1.11"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 6.66"
    }
    cockroach = {
      source  = "cockroachdb/cockroach"
      version = "~> 1.22"
    }
  }
}

variable "admin_principal_arns" {
  description = "IAM roles that administer the clusters, the one that runs Terraform among them."
  type        = set(string)
}

variable "api_public_cidrs" {
  description = "Networks that may reach the Kubernetes APIs, such as your office's address; [] only the VPCs."
  type        = list(string)
  default     = []
}

variable "kubernetes_version" {
  description = "Version of EKS, one that it supports today."
  type        = string
}

provider "aws" {
  alias  = "us"
  region = "us-east-1"
}

provider "aws" {
  alias  = "eu"
  region = "eu-west-1"
}

provider "aws" {
  alias  = "ap"
  region = "ap-northeast-1"
}

data "terraform_remote_state" "database" {
  backend = "local"
  config  = { path = "${path.module}/../1-database/terraform.tfstate" }
}

locals {
  database = data.terraform_remote_state.database.outputs
}

# The first region makes the resources that all share.
module "us" {
  source               = "../../../modules/region"
  providers            = { aws = aws.us }
  region               = "us-east-1"
  vpc_cidr             = "10.10.0.0/16"
  availability_zones   = ["us-east-1a", "us-east-1b", "us-east-1c"]
  kubernetes_version   = var.kubernetes_version
  admin_principal_arns = var.admin_principal_arns
  api_public_cidrs     = var.api_public_cidrs
  database             = try(local.database.endpoints["us-east-1"], null)
}

module "eu" {
  source               = "../../../modules/region"
  providers            = { aws = aws.eu }
  region               = "eu-west-1"
  vpc_cidr             = "10.20.0.0/16"
  availability_zones   = ["eu-west-1a", "eu-west-1b", "eu-west-1c"]
  kubernetes_version   = var.kubernetes_version
  admin_principal_arns = var.admin_principal_arns
  api_public_cidrs     = var.api_public_cidrs
  database             = try(local.database.endpoints["eu-west-1"], null)
  shared               = module.us.shared
}

module "ap" {
  source               = "../../../modules/region"
  providers            = { aws = aws.ap }
  region               = "ap-northeast-1"
  vpc_cidr             = "10.30.0.0/16"
  availability_zones   = ["ap-northeast-1a", "ap-northeast-1c", "ap-northeast-1d"]
  kubernetes_version   = var.kubernetes_version
  admin_principal_arns = var.admin_principal_arns
  api_public_cidrs     = var.api_public_cidrs
  database             = try(local.database.endpoints["ap-northeast-1"], null)
  shared               = module.us.shared
}

locals {
  regions = { us-east-1 = module.us, eu-west-1 = module.eu, ap-northeast-1 = module.ap }
  pairs = {
    us-eu = [module.us.network, module.eu.network]
    us-ap = [module.us.network, module.ap.network]
    eu-ap = [module.eu.network, module.ap.network]
  }
}

module "peering" {
  source    = "../../../modules/peering"
  providers = { aws = aws.us }
  for_each  = local.pairs
  a         = each.value[0]
  b         = each.value[1]
}

# The database's side accepts the endpoints.
resource "cockroach_private_endpoint_connection" "this" {
  for_each    = try(local.database.cluster_id, null) == null ? {} : local.regions
  cluster_id  = local.database.cluster_id
  endpoint_id = each.value.database_endpoint_id
}

output "clusters" {
  description = "For the helm provider, by region."
  value       = { for name, r in local.regions : name => r.cluster }
}

output "releases" {
  description = "For modules/homeward, by region."
  value       = { for name, r in local.regions : name => r.release }
}

output "peers" {
  description = "Values that releases need of each other, by region."
  value       = { for name, r in local.regions : name => r.peer }
}

output "entries" {
  description = "For modules/global, by region."
  value       = { for name, r in local.regions : name => r.entry }
}

output "nat_addresses" {
  description = "Addresses from which each region calls out."
  value       = { for name, r in local.regions : name => r.nat_addresses }
}
