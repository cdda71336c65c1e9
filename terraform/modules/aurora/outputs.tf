output "url_templates" {
  description = "The URL for the secret database of each side; replace USER and PASSWORD by hand. Only the side that writes serves."
  value = merge(
    { primary = "postgresql://USER:PASSWORD@${aws_rds_cluster.primary.endpoint}:5432/homeward?sslmode=verify-full&sslrootcert=/etc/homeward/database/ca.crt" },
    { for side, c in aws_rds_cluster.standby : side => "postgresql://USER:PASSWORD@${c.endpoint}:5432/homeward?sslmode=verify-full&sslrootcert=/etc/homeward/database/ca.crt" },
  )
}

output "global_cluster" {
  description = "For `aws rds switchover-global-cluster`: the global cluster, and each side's ARN."
  value = {
    id   = aws_rds_global_cluster.this.id
    arns = merge({ primary = aws_rds_cluster.primary.arn }, { for side, c in aws_rds_cluster.standby : side => c.arn })
  }
}
