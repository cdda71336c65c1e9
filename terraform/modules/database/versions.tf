terraform {
  required_version = ">= 1.11"
  required_providers {
    cockroach = {
      source  = "cockroachdb/cockroach"
      version = "~> 1.22"
    }
  }
}
