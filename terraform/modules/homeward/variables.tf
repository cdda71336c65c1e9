variable "release" {
  description = "The region: output release of modules/region."
  type = object({
    region     = string
    aws_region = string
    namespace  = string
    node_ports = object({ api = number, gossip = number })
    secrets    = map(string)
    shared     = object({ buckets_region = string, bodies_bucket = string, audit_bucket = string, bucket_key_arn = string, seal_key_arn = string })
    seal_url   = string
  })
}

variable "peers" {
  description = "The other regions by Homeward's names: output peer of their modules/region."
  type        = map(object({ gossip = list(string), cidrs = list(string) }))
  validation {
    condition     = !contains(keys(var.peers), var.release.region)
    error_message = "peers: the region itself is among them; two regions cannot have one name."
  }
}

variable "image" {
  description = "The image, by digest, so that nodes of all regions run the same bytes. homeward-cloud if bodies, the audit's keys or seal are set; see terraform/README.md."
  type        = object({ repository = string, digest = string })
  validation {
    condition     = can(regex("^sha256:[0-9a-f]{64}$", var.image.digest))
    error_message = "image.digest: sha256: and 64 hexadecimal digits."
  }
}

variable "replicas" {
  description = "Nodes of the region. No more than machines: each runs on one of its own."
  type        = number
  default     = 3
  validation {
    condition     = var.replicas >= 2
    error_message = "replicas: two is the least that survives a node."
  }
}

variable "config" {
  description = "Settings of docs/node.yaml, except those that the chart sets (node, api, rpc, tls, gossip, metrics, drain). Requires provider or providers."
  type        = any
  validation {
    condition     = length(try(keys(var.config.provider), [])) + length(try(keys(var.config.providers), [])) > 0
    error_message = "config: name the provider that moves the money, as in { provider = { kind = \"stripe\", name = \"stripe\", timeout = \"80s\" } }; providers is for several."
  }
}

variable "drain" {
  description = "How long a node may take to finish its work; longer than the provider's time-out."
  type        = string
  default     = "90s"
  validation {
    condition     = can(regex("^[0-9]+s$", var.drain)) && try(tonumber(trimsuffix(var.drain, "s")), 999) <= 110
    error_message = "drain: seconds, as 90s; at most 110s, as the load balancer drops connections after 120."
  }
}

variable "provider_secrets" {
  description = "Further secret variables of docs/node.yaml, each with the region's secret that holds it. With HOMEWARD_AUDIT_KEYS nodes export the audit's segments to their bucket, which keeps them."
  type        = map(string)
  default     = { HOMEWARD_PROVIDER_KEY = "provider", HOMEWARD_PROVIDER_WEBHOOK_SECRET = "provider-webhook" }
  validation {
    condition     = alltrue([for s in values(var.provider_secrets) : contains(keys(var.release.secrets), s)])
    error_message = "provider_secrets: each names a secret of modules/region, variable secrets."
  }
}

variable "bodies" {
  description = "Keep response bodies that are too large for their rows in the bucket that all regions share. Needs the image homeward-cloud. Do not turn it off again: rows point into the bucket."
  type        = bool
  default     = true
}

variable "seal" {
  description = "Seal secrets and personal data in the database with the region's replica of the sealing key; false stores them in clear text. Needs the image homeward-cloud."
  type        = bool
  default     = true
}

variable "database_ca" {
  description = "The database's CA in PEM, which nodes find at /etc/homeward/database/ca.crt (sslrootcert in the URL); \"\" if a public CA signed the certificate. It is not a secret."
  type        = string
  default     = ""
  validation {
    condition     = var.database_ca == "" || startswith(trimspace(var.database_ca), "-----BEGIN CERTIFICATE-----")
    error_message = "database_ca: certificates in PEM."
  }
}

variable "migration" {
  description = "Migrate the database before the nodes change, in one region of the deployment. regions lists all regions as NAME=CODE; survive is zone or region, or \"\" to change nothing."
  type        = object({ enabled = optional(bool, false), regions = optional(list(string), []), survive = optional(string, "") })
  default     = {}
  validation {
    condition     = !var.migration.enabled || length(var.migration.regions) > 0
    error_message = "migration.regions: name all regions of the deployment."
  }
  validation {
    condition     = !var.migration.enabled || contains(keys(var.release.secrets), "database-owner")
    error_message = "migration: the owner's URL comes from the secret database-owner, which the secrets of modules/region lack; add it there."
  }
}

variable "operators" {
  description = "Install cert-manager and the External Secrets operator, which this module needs; false if the cluster has them."
  type = object({
    install                  = optional(bool, true)
    cert_manager_version     = optional(string, "v1.21.2")
    external_secrets_version = optional(string, "1.3.2")
  })
  default = {}
}

variable "chart" {
  description = "The chart: a path, or oci://… with chart_version. \"\" is the one beside this module."
  type        = string
  default     = ""
}

variable "chart_version" {
  description = "Version of a chart from a registry; null for a path."
  type        = string
  default     = null
}

variable "trust_domain" {
  description = "Name of the deployment in the nodes' certificates."
  type        = string
  default     = "homeward"
}

variable "values" {
  description = "Further values of the chart as YAML; each overrides those before."
  type        = list(string)
  default     = []
}
