locals {
  # The keys are the chart's names. External Secrets makes Kubernetes Secrets from the region's
  # secrets; no value passes through Terraform.
  copied = merge(
    { homeward-database = "database", homeward-gossip = "gossip" },
    var.migration.enabled ? { homeward-database-owner = "database-owner" } : {},
    { for s in toset(values(var.provider_secrets)) : "homeward-${s}" => s },
  )
  chart = var.chart != "" ? var.chart : "${path.module}/../../../helm/homeward"

  # One bucket for all regions, in one of them. Segments need a key that signs them.
  at = "region=${var.release.shared.buckets_region}"
  buckets = merge(
    var.bodies ? { objects = "s3://${var.release.shared.bodies_bucket}?${local.at}" } : {},
    contains(keys(var.provider_secrets), "HOMEWARD_AUDIT_KEYS") ? { audit = { bucket = "s3://${var.release.shared.audit_bucket}?${local.at}" } } : {},
  )

  base = {
    region   = var.release.region
    replicas = var.replicas
    image    = var.image
    peers    = var.peers
    config   = merge(local.buckets, var.seal ? {} : { seal = false }, var.config)
    drain    = var.drain
    secrets = {
      database = { name = "homeward-database", key = "value" }
      gossip   = { name = "homeward-gossip", key = "value" }
      seal     = var.seal ? { name = "homeward-seal", key = "value" } : { name = "", key = "value" }
      extra    = { for variable, s in var.provider_secrets : variable => { name = "homeward-${s}", key = "value" } }
    }
    database = { caSecret = var.database_ca == "" ? "" : "homeward-database-ca" }
    tls = {
      mode        = "certManager"
      trustDomain = var.trust_domain
      certManager = { issuerRef = { name = "homeward-ca", kind = "Issuer", group = "cert-manager.io" } }
    }
    # The AWS libraries find keys and buckets of this region.
    env = { AWS_REGION = var.release.aws_region }
    # Terraform makes the load balancers, which send to machines' ports. A machine answers for
    # its own node only, so it is as healthy as the node.
    service = {
      type = "NodePort"
      patch = [
        { op = "add", path = "/spec/externalTrafficPolicy", value = "Local" },
        { op = "add", path = "/spec/ports/0/nodePort", value = var.release.node_ports.api },
      ]
    }
    peersService = {
      type  = "NodePort"
      patch = [{ op = "add", path = "/spec/ports/1/nodePort", value = var.release.node_ports.gossip }]
    }
    migration = {
      enabled = var.migration.enabled
      regions = var.migration.regions
      survive = var.migration.survive
      secret  = { name = var.migration.enabled ? "homeward-database-owner" : "", key = "value" }
    }
    serviceAccount = { create = true, name = "homeward" }
  }
}

resource "helm_release" "cert_manager" {
  count            = var.operators.install ? 1 : 0
  name             = "cert-manager"
  namespace        = "cert-manager"
  create_namespace = true
  repository       = "https://charts.jetstack.io"
  chart            = "cert-manager"
  version          = var.operators.cert_manager_version
  atomic           = true
  values           = [yamlencode({ crds = { enabled = true } })]
}

# modules/region lets its service account read the region's secrets.
resource "helm_release" "external_secrets" {
  count            = var.operators.install ? 1 : 0
  name             = "external-secrets"
  namespace        = "external-secrets"
  create_namespace = true
  repository       = "https://charts.external-secrets.io"
  chart            = "external-secrets"
  version          = var.operators.external_secrets_version
  atomic           = true
  values           = [yamlencode({ serviceAccount = { name = "external-secrets" } })]
}

# Before the release: the migration is a hook, and reads the owner's URL before the release
# creates anything.
resource "helm_release" "secrets" {
  name             = "homeward-secrets"
  namespace        = var.release.namespace
  create_namespace = true
  chart            = "${path.module}/secrets"
  atomic           = true
  values = [yamlencode({
    awsRegion  = var.release.aws_region
    secrets    = { for name, s in local.copied : name => var.release.secrets[s] }
    ca         = var.release.secrets["ca"]
    seal       = var.seal ? var.release.seal_url : ""
    databaseCA = var.database_ca
  })]
  depends_on = [helm_release.cert_manager, helm_release.external_secrets]
}

resource "helm_release" "homeward" {
  name       = "homeward"
  namespace  = var.release.namespace
  chart      = local.chart
  version    = var.chart_version
  values     = concat([yamlencode(local.base)], var.values)
  depends_on = [helm_release.secrets]
  # Longer than a rolling change of all nodes, as each drains first.
  timeout = 1800
  # Helm rolls back a change that does not get ready.
  atomic      = true
  max_history = 10
}
