data "aws_iam_policy_document" "assume" {
  for_each = {
    cluster = { service = "eks.amazonaws.com", actions = ["sts:AssumeRole"] }
    node    = { service = "ec2.amazonaws.com", actions = ["sts:AssumeRole"] }
    flow    = { service = "vpc-flow-logs.amazonaws.com", actions = ["sts:AssumeRole"] }
    pod     = { service = "pods.eks.amazonaws.com", actions = ["sts:AssumeRole", "sts:TagSession"] }
  }
  statement {
    actions = each.value.actions
    principals {
      type        = "Service"
      identifiers = [each.value.service]
    }
    # A service must not act for another account's resources (the confused deputy). EKS and EC2
    # name no account when they assume the roles of clusters and machines.
    dynamic "condition" {
      for_each = contains(["flow"], each.key) ? [1] : []
      content {
        test     = "StringEquals"
        variable = "aws:SourceAccount"
        values   = [data.aws_caller_identity.current.account_id]
      }
    }
    # Pods of this cluster only.
    dynamic "condition" {
      for_each = each.key == "pod" ? [1] : []
      content {
        test     = "StringEquals"
        variable = "aws:RequestTag/eks-cluster-name"
        values   = [local.id]
      }
    }
  }
}

resource "aws_iam_role" "cluster" {
  name               = "${local.id}-cluster"
  assume_role_policy = data.aws_iam_policy_document.assume["cluster"].json
  tags               = local.tags
}

resource "aws_iam_role_policy_attachment" "cluster" {
  role       = aws_iam_role.cluster.name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/AmazonEKSClusterPolicy"
}

# Machines may join and pull images. Pods have roles of their own.
resource "aws_iam_role" "node" {
  name               = "${local.id}-node"
  assume_role_policy = data.aws_iam_policy_document.assume["node"].json
  tags               = local.tags
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each   = toset(["AmazonEKSWorkerNodeMinimalPolicy", "AmazonEC2ContainerRegistryPullOnly"])
  role       = aws_iam_role.node.name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/${each.key}"
}

resource "aws_iam_role" "cni" {
  name               = "${local.id}-cni"
  assume_role_policy = data.aws_iam_policy_document.assume["pod"].json
  tags               = local.tags
}

resource "aws_iam_role_policy_attachment" "cni" {
  role       = aws_iam_role.cni.name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/AmazonEKS_CNI_Policy"
}

resource "aws_iam_role" "flow" {
  name               = "${local.id}-flow"
  assume_role_policy = data.aws_iam_policy_document.assume["flow"].json
  tags               = local.tags
}

data "aws_iam_policy_document" "flow" {
  statement {
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents", "logs:DescribeLogStreams"]
    resources = ["${aws_cloudwatch_log_group.flow.arn}:*"]
  }
}

resource "aws_iam_role_policy" "flow" {
  name   = "write"
  role   = aws_iam_role.flow.id
  policy = data.aws_iam_policy_document.flow.json
}

# The one role that reads the region's secrets.
resource "aws_iam_role" "secrets" {
  name               = "${local.id}-secrets"
  assume_role_policy = data.aws_iam_policy_document.assume["pod"].json
  tags               = local.tags
}

data "aws_iam_policy_document" "secrets" {
  statement {
    actions   = ["secretsmanager:GetSecretValue", "secretsmanager:DescribeSecret"]
    resources = [for s in aws_secretsmanager_secret.this : s.arn]
  }
  statement {
    actions   = ["kms:Decrypt"]
    resources = [aws_kms_key.region.arn]
    condition {
      test     = "StringEquals"
      variable = "kms:ViaService"
      values   = ["secretsmanager.${data.aws_region.current.region}.amazonaws.com"]
    }
  }
}

resource "aws_iam_role_policy" "secrets" {
  name   = "read"
  role   = aws_iam_role.secrets.id
  policy = data.aws_iam_policy_document.secrets.json
}

# Nodes of Homeward. They delete no object: the bucket's lifecycle deletes bodies, and audit stays.
resource "aws_iam_role" "homeward" {
  name               = "${local.id}-homeward"
  assume_role_policy = data.aws_iam_policy_document.assume["pod"].json
  tags               = local.tags
}

data "aws_iam_policy_document" "homeward" {
  statement {
    sid       = "Objects"
    actions   = ["s3:GetObject", "s3:PutObject"]
    resources = [for b in [local.shared.bodies_bucket, local.shared.audit_bucket] : "arn:${data.aws_partition.current.partition}:s3:::${b}/*"]
  }
  statement {
    sid       = "Lists"
    actions   = ["s3:ListBucket"]
    resources = [for b in [local.shared.bodies_bucket, local.shared.audit_bucket] : "arn:${data.aws_partition.current.partition}:s3:::${b}"]
  }
  statement {
    sid       = "BucketKey"
    actions   = ["kms:Decrypt", "kms:GenerateDataKey"]
    resources = [local.shared.bucket_key_arn]
    condition {
      test     = "StringLike"
      variable = "kms:ViaService"
      values   = ["s3.*.amazonaws.com"]
    }
  }
  statement {
    sid       = "Seal"
    actions   = ["kms:Encrypt", "kms:Decrypt"]
    resources = [local.seal_key_arn]
  }
}

resource "aws_iam_role_policy" "homeward" {
  name   = "objects-and-seal"
  role   = aws_iam_role.homeward.id
  policy = data.aws_iam_policy_document.homeward.json
}
