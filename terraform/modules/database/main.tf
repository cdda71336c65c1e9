locals {
  made = var.existing_url == ""
}

# The plan Advanced has machines of its own in several regions, which nodes reach by private
# endpoints. There is no allow list, so the cluster is closed to the internet.
resource "cockroach_cluster" "this" {
  count             = local.made ? 1 : 0
  name              = var.name
  cloud_provider    = "AWS"
  plan              = "ADVANCED"
  cockroach_version = var.cockroach_version
  delete_protection = var.delete_protection
  labels            = var.labels

  dedicated = {
    num_virtual_cpus           = var.machine.vcpus
    storage_gib                = var.machine.storage_gib
    private_network_visibility = true
  }

  regions = [for region, r in var.regions : { name = region, node_count = r.nodes }]

  backup_config = {
    enabled           = true
    frequency_minutes = var.backups.every_minutes
    retention_days    = var.backups.days
  }
}

resource "cockroach_database" "this" {
  count      = local.made ? 1 : 0
  cluster_id = cockroach_cluster.this[0].id
  name       = var.name
}

# Nodes verify the cluster with this CA (sslmode=verify-full).
data "cockroach_cluster_cert" "this" {
  count = local.made ? 1 : 0
  id    = cockroach_cluster.this[0].id
}

resource "cockroach_private_endpoint_services" "this" {
  count      = local.made ? 1 : 0
  cluster_id = cockroach_cluster.this[0].id
}

# You make users by hand, as the state would have their passwords: `homeward migrate roles` makes
# the roles, ALTER ROLE sets passwords. See terraform/README.md.
