# Two regions, of which one serves: PostgreSQL has one server that writes. The other has a standby,
# to which you switch the database over by hand. See README.md.
terraform {
  required_version = ">= 1.11"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 6.66"
    }
  }
}

variable "admin_principal_arns" {
  description = "IAM roles that administer the clusters, the one that runs Terraform among them."
  type        = set(string)
}

variable "api_public_cidrs" {
  description = "Networks that may reach the Kubernetes APIs; [] only the VPCs."
  type        = list(string)
  default     = []
}

variable "kubernetes_version" {
  description = "Version of EKS, one that it supports today."
  type        = string
}

variable "master_password" {
  description = "Password of the database's first user; in neither plan nor state."
  type        = string
  ephemeral   = true
  sensitive   = true
}

provider "aws" {
  alias  = "us"
  region = "us-east-1"
}

provider "aws" {
  alias  = "west"
  region = "us-west-2"
}

module "us" {
  source               = "../../../modules/region"
  providers            = { aws = aws.us }
  region               = "us-east-1"
  vpc_cidr             = "10.10.0.0/16"
  availability_zones   = ["us-east-1a", "us-east-1b", "us-east-1c"]
  kubernetes_version   = var.kubernetes_version
  admin_principal_arns = var.admin_principal_arns
  api_public_cidrs     = var.api_public_cidrs
}

module "west" {
  source               = "../../../modules/region"
  providers            = { aws = aws.west }
  region               = "us-west-2"
  vpc_cidr             = "10.20.0.0/16"
  availability_zones   = ["us-west-2a", "us-west-2b", "us-west-2c"]
  kubernetes_version   = var.kubernetes_version
  admin_principal_arns = var.admin_principal_arns
  api_public_cidrs     = var.api_public_cidrs
  shared               = module.us.shared
}

module "database" {
  source          = "../../../modules/aurora"
  providers       = { aws = aws.us }
  master_password = var.master_password
  primary = {
    aws_region              = "us-east-1"
    vpc_id                  = module.us.network.vpc_id
    nodes_security_group_id = module.us.network.nodes_security_group_id
    subnet_ids              = values(module.us.private_subnet_ids)
  }
  standby = {
    aws_region              = "us-west-2"
    vpc_id                  = module.west.network.vpc_id
    nodes_security_group_id = module.west.network.nodes_security_group_id
    subnet_ids              = values(module.west.private_subnet_ids)
  }
}

output "clusters" {
  description = "For the helm provider, by region."
  value       = { us-east-1 = module.us.cluster, us-west-2 = module.west.cluster }
}

output "releases" {
  description = "For modules/homeward, by region."
  value       = { us-east-1 = module.us.release, us-west-2 = module.west.release }
}

output "entries" {
  description = "For modules/global, by region."
  value       = { us-east-1 = module.us.entry, us-west-2 = module.west.entry }
}

output "database" {
  description = "URLs without user and password, and the names for a switchover."
  value       = { url_templates = module.database.url_templates, global_cluster = module.database.global_cluster }
}
