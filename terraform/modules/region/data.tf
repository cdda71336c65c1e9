locals {
  first = var.shared == null
  shared = local.first ? {
    buckets_region = data.aws_region.current.region
    bodies_bucket  = aws_s3_bucket.this["bodies"].bucket
    audit_bucket   = aws_s3_bucket.this["audit"].bucket
    bucket_key_arn = aws_kms_key.bucket[0].arn
    seal_key_arn   = aws_kms_key.seal[0].arn
  } : var.shared
  seal_key_arn = local.first ? aws_kms_key.seal[0].arn : aws_kms_replica_key.seal[0].arn
  buckets      = local.first ? { bodies = {}, audit = {} } : {}
}

# The region's key, for secrets and the cluster's etcd.
resource "aws_kms_key" "region" {
  description             = "${local.id}: secrets and etcd"
  enable_key_rotation     = true
  deletion_window_in_days = 30
  tags                    = local.tags
}

resource "aws_kms_alias" "region" {
  name          = "alias/${local.id}"
  target_key_id = aws_kms_key.region.key_id
}

# The buckets' key, in the region with the buckets.
resource "aws_kms_key" "bucket" {
  count                   = local.first ? 1 : 0
  description             = "${var.name}: buckets of bodies and audit"
  enable_key_rotation     = true
  deletion_window_in_days = 30
  tags                    = local.tags
}

# A node can open what a node of another region has sealed: there is one key, with a replica in
# each region, under one alias, so that its URL is the same everywhere.
resource "aws_kms_key" "seal" {
  count                   = local.first ? 1 : 0
  description             = "${var.name}: seals values in the database"
  multi_region            = true
  enable_key_rotation     = true
  deletion_window_in_days = 30
  tags                    = local.tags
  lifecycle {
    prevent_destroy = true
  }
}

resource "aws_kms_replica_key" "seal" {
  count                   = local.first ? 0 : 1
  description             = "${var.name}: seals values in the database"
  primary_key_arn         = var.shared.seal_key_arn
  deletion_window_in_days = 30
  tags                    = local.tags
}

resource "aws_kms_alias" "seal" {
  name          = "alias/${var.name}-seal"
  target_key_id = local.first ? aws_kms_key.seal[0].key_id : aws_kms_replica_key.seal[0].key_id
}

# Empty, as Terraform's state would have the values.
resource "aws_secretsmanager_secret" "this" {
  for_each                = var.secrets
  name                    = "${var.name}/${var.region}/${each.key}"
  description             = "Value put in by hand; see terraform/README.md"
  kms_key_id              = aws_kms_key.region.arn
  recovery_window_in_days = 30
  tags                    = local.tags
}

resource "aws_s3_bucket" "this" {
  for_each            = local.buckets
  bucket              = "${var.name}-${each.key}-${data.aws_caller_identity.current.account_id}"
  object_lock_enabled = each.key == "audit"
  force_destroy       = false
  tags                = local.tags
  lifecycle {
    prevent_destroy = true
  }
}

resource "aws_s3_bucket_public_access_block" "this" {
  for_each                = local.buckets
  bucket                  = aws_s3_bucket.this[each.key].id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_ownership_controls" "this" {
  for_each = local.buckets
  bucket   = aws_s3_bucket.this[each.key].id
  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "this" {
  for_each = local.buckets
  bucket   = aws_s3_bucket.this[each.key].id
  rule {
    bucket_key_enabled = true
    apply_server_side_encryption_by_default {
      sse_algorithm     = "aws:kms"
      kms_master_key_id = aws_kms_key.bucket[0].arn
    }
  }
}

resource "aws_s3_bucket_versioning" "audit" {
  count  = local.first ? 1 : 0
  bucket = aws_s3_bucket.this["audit"].id
  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_object_lock_configuration" "audit" {
  count  = local.first ? 1 : 0
  bucket = aws_s3_bucket.this["audit"].id
  rule {
    default_retention {
      mode  = var.audit_retention.mode
      years = var.audit_retention.years
    }
  }
  depends_on = [aws_s3_bucket_versioning.audit]
}

# Nodes replay an answer for a day and answer 410 for another; the rest is slack for claims that
# were unknown for long. See docs/SECURITY.md.
resource "aws_s3_bucket_lifecycle_configuration" "bodies" {
  count  = local.first ? 1 : 0
  bucket = aws_s3_bucket.this["bodies"].id
  rule {
    id     = "expire"
    status = "Enabled"
    filter {}
    expiration {
      days = 35
    }
    abort_incomplete_multipart_upload {
      days_after_initiation = 1
    }
  }
}

data "aws_iam_policy_document" "bucket" {
  for_each = local.buckets
  statement {
    sid       = "TLSOnly"
    effect    = "Deny"
    actions   = ["s3:*"]
    resources = [aws_s3_bucket.this[each.key].arn, "${aws_s3_bucket.this[each.key].arn}/*"]
    principals {
      type        = "*"
      identifiers = ["*"]
    }
    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

resource "aws_s3_bucket_policy" "this" {
  for_each   = local.buckets
  bucket     = aws_s3_bucket.this[each.key].id
  policy     = data.aws_iam_policy_document.bucket[each.key].json
  depends_on = [aws_s3_bucket_public_access_block.this]
}

# Nodes reach the database by an endpoint of the VPC, under the database's own name, so that they
# can verify its certificate (sslmode=verify-full).
resource "aws_security_group" "database" {
  count       = var.database == null ? 0 : 1
  name_prefix = "${local.id}-database-"
  description = "From nodes to the database's endpoint"
  vpc_id      = aws_vpc.this.id
  tags        = local.tags
  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_vpc_security_group_ingress_rule" "database" {
  count                        = var.database == null ? 0 : 1
  security_group_id            = aws_security_group.database[0].id
  referenced_security_group_id = local.nodes_security_group
  description                  = "SQL from machines of the cluster"
  ip_protocol                  = "tcp"
  from_port                    = var.database.port
  to_port                      = var.database.port
  tags                         = local.tags
}

resource "aws_vpc_endpoint" "database" {
  count               = var.database == null ? 0 : 1
  vpc_id              = aws_vpc.this.id
  vpc_endpoint_type   = "Interface"
  service_name        = var.database.service_name
  subnet_ids          = [for s in aws_subnet.private : s.id]
  security_group_ids  = [aws_security_group.database[0].id]
  private_dns_enabled = false
  tags                = merge(local.tags, { Name = "${local.id}-database" })
}

resource "aws_route53_zone" "database" {
  count   = var.database == null ? 0 : 1
  name    = var.database.dns_name
  comment = "${local.id}: the database by its own name"
  tags    = local.tags
  vpc {
    vpc_id = aws_vpc.this.id
  }
}

resource "aws_route53_record" "database" {
  count   = var.database == null ? 0 : 1
  zone_id = aws_route53_zone.database[0].zone_id
  name    = var.database.dns_name
  type    = "A"
  alias {
    name                   = aws_vpc_endpoint.database[0].dns_entry[0].dns_name
    zone_id                = aws_vpc_endpoint.database[0].dns_entry[0].hosted_zone_id
    evaluate_target_health = false
  }
}
