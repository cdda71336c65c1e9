resource "aws_cloudwatch_log_group" "cluster" {
  # EKS writes to this name. Terraform makes the group, so that old logs are deleted.
  name              = "/aws/eks/${local.id}/cluster"
  retention_in_days = var.log_days
  tags              = local.tags
}

resource "aws_eks_cluster" "this" {
  name                          = local.id
  version                       = var.kubernetes_version
  role_arn                      = aws_iam_role.cluster.arn
  enabled_cluster_log_types     = ["api", "audit", "authenticator"]
  bootstrap_self_managed_addons = false
  deletion_protection           = var.deletion_protection
  tags                          = local.tags

  access_config {
    authentication_mode                         = "API"
    bootstrap_cluster_creator_admin_permissions = false
  }

  vpc_config {
    subnet_ids              = [for s in aws_subnet.private : s.id]
    endpoint_private_access = true
    endpoint_public_access  = length(var.api_public_cidrs) > 0
    public_access_cidrs     = length(var.api_public_cidrs) > 0 ? var.api_public_cidrs : null
  }

  # EKS seals Secrets in etcd with a key of our own.
  encryption_config {
    resources = ["secrets"]
    provider {
      key_arn = aws_kms_key.region.arn
    }
  }

  depends_on = [aws_iam_role_policy_attachment.cluster, aws_cloudwatch_log_group.cluster]
}

resource "aws_eks_access_entry" "admin" {
  for_each      = var.admin_principal_arns
  cluster_name  = aws_eks_cluster.this.name
  principal_arn = each.key
  tags          = local.tags
}

resource "aws_eks_access_policy_association" "admin" {
  for_each      = var.admin_principal_arns
  cluster_name  = aws_eks_cluster.this.name
  principal_arn = aws_eks_access_entry.admin[each.key].principal_arn
  policy_arn    = "arn:${data.aws_partition.current.partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
  access_scope {
    type = "cluster"
  }
}

# The versions are EKS's defaults for the cluster's.
resource "aws_eks_addon" "pod_identity" {
  cluster_name = aws_eks_cluster.this.name
  addon_name   = "eks-pod-identity-agent"
  tags         = local.tags
}

resource "aws_eks_addon" "kube_proxy" {
  cluster_name = aws_eks_cluster.this.name
  addon_name   = "kube-proxy"
  tags         = local.tags
}

resource "aws_eks_addon" "cni" {
  cluster_name = aws_eks_cluster.this.name
  addon_name   = "vpc-cni"
  tags         = local.tags
  configuration_values = jsonencode({
    # The CNI enforces the chart's NetworkPolicy.
    enableNetworkPolicy = "true"
    # NAT gateways hide pods' addresses from the internet. Without this the machine hides them
    # from other regions as well, and gossip needs them there.
    env = { AWS_VPC_K8S_CNI_EXTERNALSNAT = "true" }
  })
  pod_identity_association {
    role_arn        = aws_iam_role.cni.arn
    service_account = "aws-node"
  }
  depends_on = [aws_eks_addon.pod_identity]
}

resource "aws_eks_addon" "coredns" {
  cluster_name = aws_eks_cluster.this.name
  addon_name   = "coredns"
  tags         = local.tags
  depends_on   = [aws_eks_node_group.this]
}

resource "aws_launch_template" "nodes" {
  name_prefix            = "${local.id}-"
  update_default_version = true
  tags                   = local.tags

  # Pods cannot reach the machine's own credentials: one hop, and a token.
  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  block_device_mappings {
    device_name = "/dev/xvda"
    ebs {
      volume_size           = var.nodes.disk_gib
      volume_type           = "gp3"
      encrypted             = "true"
      delete_on_termination = "true"
    }
  }

  tag_specifications {
    resource_type = "instance"
    tags          = merge(local.tags, { Name = "${local.id}-node" })
  }
}

resource "aws_eks_node_group" "this" {
  cluster_name           = aws_eks_cluster.this.name
  node_group_name_prefix = "nodes-"
  node_role_arn          = aws_iam_role.node.arn
  subnet_ids             = [for s in aws_subnet.private : s.id]
  instance_types         = var.nodes.instance_types
  ami_type               = var.nodes.ami_type
  tags                   = local.tags

  launch_template {
    id      = aws_launch_template.nodes.id
    version = aws_launch_template.nodes.latest_version
  }

  scaling_config {
    min_size     = var.nodes.min
    desired_size = var.nodes.min
    max_size     = var.nodes.max
  }

  # One machine at a time, within the disruption budget of the nodes.
  update_config {
    max_unavailable = 1
  }

  lifecycle {
    create_before_destroy = true
    ignore_changes        = [scaling_config[0].desired_size]
  }

  depends_on = [aws_iam_role_policy_attachment.node, aws_eks_addon.cni, aws_eks_addon.kube_proxy]
}

# Nodes of Homeward use buckets and the sealing key with this role; the machine has no credentials.
resource "aws_eks_pod_identity_association" "homeward" {
  cluster_name    = aws_eks_cluster.this.name
  namespace       = var.namespace
  service_account = "homeward"
  role_arn        = aws_iam_role.homeward.arn
  tags            = local.tags
}

resource "aws_eks_pod_identity_association" "secrets" {
  cluster_name    = aws_eks_cluster.this.name
  namespace       = "external-secrets"
  service_account = "external-secrets"
  role_arn        = aws_iam_role.secrets.arn
  tags            = local.tags
}
