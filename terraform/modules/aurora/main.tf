# One PostgreSQL writes. Acknowledged data are in three zones of its region, and arrive in the
# standby's about a second later. A switchover to the standby loses nothing. A failover to it
# needs the procedure for a restored backup: docs/RUNBOOK.md, "Restore a backup".
locals {
  sides  = merge({ primary = var.primary }, var.standby == null ? {} : { standby = var.standby })
  second = var.standby == null ? {} : { standby = var.standby }
  family = "aurora-postgresql${split(".", var.engine_version)[0]}"
}

resource "aws_kms_key" "this" {
  for_each                = local.sides
  region                  = each.value.aws_region
  description             = "${var.name}: database, ${each.key}"
  enable_key_rotation     = true
  deletion_window_in_days = 30
  tags                    = var.tags
}

resource "aws_db_subnet_group" "this" {
  for_each   = local.sides
  region     = each.value.aws_region
  name       = "${var.name}-${each.key}"
  subnet_ids = each.value.subnet_ids
  tags       = var.tags
}

resource "aws_security_group" "this" {
  for_each    = local.sides
  region      = each.value.aws_region
  name_prefix = "${var.name}-database-"
  description = "From nodes to the database"
  vpc_id      = each.value.vpc_id
  tags        = var.tags
  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_vpc_security_group_ingress_rule" "this" {
  for_each                     = local.sides
  region                       = each.value.aws_region
  security_group_id            = aws_security_group.this[each.key].id
  referenced_security_group_id = each.value.nodes_security_group_id
  description                  = "SQL from machines of the cluster"
  ip_protocol                  = "tcp"
  from_port                    = 5432
  to_port                      = 5432
  tags                         = var.tags
}

resource "aws_rds_cluster_parameter_group" "this" {
  for_each = local.sides
  region   = each.value.aws_region
  name     = "${var.name}-${each.key}"
  family   = local.family
  tags     = var.tags
  # The server refuses clear text, too.
  parameter {
    name  = "rds.force_ssl"
    value = "1"
  }
}

resource "aws_rds_global_cluster" "this" {
  region                    = var.primary.aws_region
  global_cluster_identifier = var.name
  engine                    = "aurora-postgresql"
  engine_version            = var.engine_version
  database_name             = "homeward"
  storage_encrypted         = true
  deletion_protection       = var.deletion_protection
  tags                      = var.tags
}

resource "aws_rds_cluster" "primary" {
  region                          = var.primary.aws_region
  cluster_identifier              = "${var.name}-primary"
  global_cluster_identifier       = aws_rds_global_cluster.this.id
  engine                          = aws_rds_global_cluster.this.engine
  engine_version                  = aws_rds_global_cluster.this.engine_version
  database_name                   = "homeward"
  master_username                 = "homeward_admin"
  master_password_wo              = var.master_password
  master_password_wo_version      = var.master_password_version
  db_subnet_group_name            = aws_db_subnet_group.this["primary"].name
  db_cluster_parameter_group_name = aws_rds_cluster_parameter_group.this["primary"].name
  vpc_security_group_ids          = [aws_security_group.this["primary"].id]
  storage_encrypted               = true
  kms_key_id                      = aws_kms_key.this["primary"].arn
  backup_retention_period         = var.backup_days
  copy_tags_to_snapshot           = true
  enabled_cloudwatch_logs_exports = ["postgresql"]
  deletion_protection             = var.deletion_protection
  skip_final_snapshot             = false
  final_snapshot_identifier       = "${var.name}-final"
  tags                            = var.tags
  lifecycle {
    # A switchover changes the direction of replication at AWS.
    ignore_changes = [replication_source_identifier]
  }
}

resource "aws_rds_cluster" "standby" {
  for_each                        = local.second
  region                          = each.value.aws_region
  cluster_identifier              = "${var.name}-standby"
  global_cluster_identifier       = aws_rds_global_cluster.this.id
  engine                          = aws_rds_global_cluster.this.engine
  engine_version                  = aws_rds_global_cluster.this.engine_version
  db_subnet_group_name            = aws_db_subnet_group.this[each.key].name
  db_cluster_parameter_group_name = aws_rds_cluster_parameter_group.this[each.key].name
  vpc_security_group_ids          = [aws_security_group.this[each.key].id]
  storage_encrypted               = true
  kms_key_id                      = aws_kms_key.this[each.key].arn
  backup_retention_period         = var.backup_days
  copy_tags_to_snapshot           = true
  deletion_protection             = var.deletion_protection
  skip_final_snapshot             = false
  final_snapshot_identifier       = "${var.name}-standby-final"
  tags                            = var.tags
  lifecycle {
    ignore_changes = [replication_source_identifier]
  }
  # A secondary follows a server that writes.
  depends_on = [aws_rds_cluster_instance.primary]
}

resource "aws_rds_cluster_instance" "primary" {
  count                      = var.instance.count
  region                     = var.primary.aws_region
  identifier                 = "${var.name}-primary-${count.index}"
  cluster_identifier         = aws_rds_cluster.primary.id
  engine                     = aws_rds_cluster.primary.engine
  instance_class             = var.instance.class
  publicly_accessible        = false
  auto_minor_version_upgrade = false
  tags                       = var.tags
}

resource "aws_rds_cluster_instance" "standby" {
  count                      = var.standby == null ? 0 : var.instance.count
  region                     = var.standby.aws_region
  identifier                 = "${var.name}-standby-${count.index}"
  cluster_identifier         = aws_rds_cluster.standby["standby"].id
  engine                     = aws_rds_cluster.primary.engine
  instance_class             = var.instance.class
  publicly_accessible        = false
  auto_minor_version_upgrade = false
  tags                       = var.tags
}
