# The chart in the region that serves, and in no other. After a switchover of the database:
# apply with the other region, here and in 3-global.
terraform {
  required_version = ">= 1.11"
  required_providers {
    helm = {
      source  = "hashicorp/helm"
      version = "~> 3.1"
    }
  }
}

variable "serving" {
  description = "The region with the database that writes."
  type        = string
  default     = "us-east-1"
  validation {
    condition     = contains(["us-east-1", "us-west-2"], var.serving)
    error_message = "serving: us-east-1 or us-west-2."
  }
}

variable "image" {
  description = "The image."
  type        = object({ repository = string, digest = string })
}

variable "config" {
  description = "Settings of docs/node.yaml, the same in both regions."
  type        = any
  default     = { provider = { kind = "stripe", name = "stripe", timeout = "80s" } }
}

variable "database_ca" {
  description = "RDS's CA bundle in PEM: AWS, \"Using SSL/TLS to encrypt a connection to a DB cluster\"."
  type        = string
}

data "terraform_remote_state" "regions" {
  backend = "local"
  config  = { path = "${path.module}/../1-regions/terraform.tfstate" }
}

locals {
  regions = data.terraform_remote_state.regions.outputs
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
  alias = "west"
  kubernetes = {
    host                   = local.regions.clusters["us-west-2"].endpoint
    cluster_ca_certificate = base64decode(local.regions.clusters["us-west-2"].ca)
    exec = {
      api_version = "client.authentication.k8s.io/v1beta1"
      command     = "aws"
      args        = ["eks", "get-token", "--region", "us-west-2", "--cluster-name", local.regions.clusters["us-west-2"].name]
    }
  }
}

module "us" {
  source      = "../../../modules/homeward"
  providers   = { helm = helm.us }
  count       = var.serving == "us-east-1" ? 1 : 0
  release     = local.regions.releases["us-east-1"]
  peers       = {}
  image       = var.image
  config      = var.config
  database_ca = var.database_ca
  # Both names from the beginning: a key keeps its home, whichever region serves it.
  migration = { enabled = true, regions = ["us-east-1=1", "us-west-2=2"] }
}

module "west" {
  source      = "../../../modules/homeward"
  providers   = { helm = helm.west }
  count       = var.serving == "us-west-2" ? 1 : 0
  release     = local.regions.releases["us-west-2"]
  peers       = {}
  image       = var.image
  config      = var.config
  database_ca = var.database_ca
  # Both names from the beginning: a key keeps its home, whichever region serves it.
  migration = { enabled = true, regions = ["us-east-1=1", "us-west-2=2"] }
}
