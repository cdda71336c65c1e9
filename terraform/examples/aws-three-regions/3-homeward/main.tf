# The chart, in three clusters. Set the secrets before; see terraform/README.md.
terraform {
  required_version = ">= 1.11"
  required_providers {
    helm = {
      source  = "hashicorp/helm"
      version = "~> 3.1"
    }
  }
}

variable "image" {
  description = "The image of all regions."
  type        = object({ repository = string, digest = string })
}

variable "config" {
  description = "Settings of docs/node.yaml, the same in all regions."
  type        = any
  default     = { provider = { kind = "stripe", name = "stripe", timeout = "80s" } }
}

data "terraform_remote_state" "database" {
  backend = "local"
  config  = { path = "${path.module}/../1-database/terraform.tfstate" }
}

data "terraform_remote_state" "regions" {
  backend = "local"
  config  = { path = "${path.module}/../2-regions/terraform.tfstate" }
}

locals {
  database = data.terraform_remote_state.database.outputs
  regions  = data.terraform_remote_state.regions.outputs
  # Merchants have keys and ids with these codes, so they never change.
  codes = ["us-east-1=1", "eu-west-1=2", "ap-northeast-1=3"]
}

provider "helm" {
  alias = "us"
  kubernetes = {
    host                   = local.regions.clusters["us-east-1"].endpoint
    cluster_ca_certificate = base64decode(local.regions.clusters["us-east-1"].ca)
    exec = {
      api_version = "client.authentication.k8s.io/v1beta1"
      command     = "aws"
      args        = ["eks", "get-token", "--region", "us-east-1", "--cluster-name", local.regions.clusters["us-east-1"].name]
    }
  }
}

provider "helm" {
  alias = "eu"
  kubernetes = {
    host                   = local.regions.clusters["eu-west-1"].endpoint
    cluster_ca_certificate = base64decode(local.regions.clusters["eu-west-1"].ca)
    exec = {
      api_version = "client.authentication.k8s.io/v1beta1"
      command     = "aws"
      args        = ["eks", "get-token", "--region", "eu-west-1", "--cluster-name", local.regions.clusters["eu-west-1"].name]
    }
  }
}

provider "helm" {
  alias = "ap"
  kubernetes = {
    host                   = local.regions.clusters["ap-northeast-1"].endpoint
    cluster_ca_certificate = base64decode(local.regions.clusters["ap-northeast-1"].ca)
    exec = {
      api_version = "client.authentication.k8s.io/v1beta1"
      command     = "aws"
      args        = ["eks", "get-token", "--region", "ap-northeast-1", "--cluster-name", local.regions.clusters["ap-northeast-1"].name]
    }
  }
}

# The first region migrates the database; the others follow.
module "us" {
  source      = "../../../modules/homeward"
  providers   = { helm = helm.us }
  release     = local.regions.releases["us-east-1"]
  peers       = { for name, p in local.regions.peers : name => p if name != "us-east-1" }
  image       = var.image
  config      = var.config
  database_ca = local.database.ca
  migration   = { enabled = true, regions = local.codes, survive = "region" }
}

module "eu" {
  source      = "../../../modules/homeward"
  providers   = { helm = helm.eu }
  release     = local.regions.releases["eu-west-1"]
  peers       = { for name, p in local.regions.peers : name => p if name != "eu-west-1" }
  image       = var.image
  config      = var.config
  database_ca = local.database.ca
  depends_on  = [module.us]
}

module "ap" {
  source      = "../../../modules/homeward"
  providers   = { helm = helm.ap }
  release     = local.regions.releases["ap-northeast-1"]
  peers       = { for name, p in local.regions.peers : name => p if name != "ap-northeast-1" }
  image       = var.image
  config      = var.config
  database_ca = local.database.ca
  depends_on  = [module.us]
}

output "status" {
  description = "Helm's description of each release."
  value       = { us-east-1 = module.us.status, eu-west-1 = module.eu.status, ap-northeast-1 = module.ap.status }
}
