output "cluster_id" {
  description = "The cluster in CockroachDB Cloud; null for an existing database."
  value       = one(cockroach_cluster.this[*].id)
}

output "endpoints" {
  description = "The value of modules/region's database, by AWS region; {} for an existing database."
  value = local.made ? {
    for s in cockroach_private_endpoint_services.this[0].services : s.region_name => {
      service_name = s.name
      dns_name     = one([for r in cockroach_cluster.this[0].regions : r.internal_dns if r.name == s.region_name])
      port         = 26257
    }
  } : {}
}

output "url_templates" {
  description = "The URL for the secret database, by AWS region; replace USER and PASSWORD by hand. An existing database has one, under \"existing\"."
  value = local.made ? {
    for r in cockroach_cluster.this[0].regions : r.name => "postgresql://USER:PASSWORD@${coalesce(r.internal_dns, "HOST")}:26257/${var.name}?sslmode=verify-full&sslrootcert=/etc/homeward/database/ca.crt"
  } : { existing = replace(var.existing_url, "postgresql://", "postgresql://USER:PASSWORD@") }
}

output "ca" {
  description = "The cluster's CA in PEM, for modules/homeward; \"\" for an existing database."
  value       = local.made ? data.cockroach_cluster_cert.this[0].cert : ""
}
