variable "name" {
  description = "Name of the deployment, which is in the names of all resources."
  type        = string
  default     = "homeward"
  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,19}$", var.name))
    error_message = "name: 2 to 20 lower-case letters, digits and hyphens, a letter first."
  }
}

variable "region" {
  description = "Homeward's name of the region, as in the database's table of regions. It need not be AWS's name: CockroachDB Cloud may use another one."
  type        = string
  validation {
    condition     = can(regex("^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$", var.region))
    error_message = "region: 1 to 32 lower-case letters, digits and hyphens, no hyphen at the ends."
  }
}

variable "vpc_cidr" {
  description = "Addresses of the region, a /16. Regions reach each other's pods, so no two may overlap."
  type        = string
  validation {
    condition     = can(cidrhost(var.vpc_cidr, 0)) && can(regex("/16$", var.vpc_cidr))
    error_message = "vpc_cidr: an IPv4 network with /16, as 10.10.0.0/16."
  }
}

variable "availability_zones" {
  description = "Names of the nodes' zones: usually three, at least two."
  type        = list(string)
  validation {
    condition     = length(var.availability_zones) >= 2 && length(var.availability_zones) <= 4 && length(distinct(var.availability_zones)) == length(var.availability_zones)
    error_message = "availability_zones: two to four, each once."
  }
}

variable "nat" {
  description = "per_zone: a NAT gateway in each zone, so that a lost zone cuts off only itself. single: one for all, which is cheaper; if its zone is lost, nodes of all zones lose the provider."
  type        = string
  default     = "per_zone"
  validation {
    condition     = contains(["per_zone", "single"], var.nat)
    error_message = "nat: per_zone or single."
  }
}

variable "kubernetes_version" {
  description = "EKS version, such as 1.34. The chart needs 1.30 or newer; see \"Understand the Kubernetes version lifecycle on EKS\" for those that are supported."
  type        = string
  validation {
    condition     = can(regex("^1\\.(3[0-9]|[4-9][0-9])$", var.kubernetes_version))
    error_message = "kubernetes_version: 1.30 or newer, without a patch number."
  }
}

variable "api_public_cidrs" {
  description = "Networks that may reach the Kubernetes API over the internet. []: only the VPC, so that Terraform must run there, too, or over a VPN."
  type        = list(string)
  default     = []
  validation {
    condition     = alltrue([for c in var.api_public_cidrs : can(cidrhost(c, 0)) && tonumber(split("/", c)[1]) >= 16])
    error_message = "api_public_cidrs: networks of your own, /16 at most; no others need the Kubernetes API."
  }
}

variable "admin_principal_arns" {
  description = "IAM roles that administer the cluster, Terraform's own among them. The creator of the cluster gets no rights by creating it."
  type        = set(string)
  validation {
    condition     = length(var.admin_principal_arns) > 0 && alltrue([for a in var.admin_principal_arns : can(regex("^arn:aws[a-z-]*:iam::[0-9]{12}:(role|user)/", a))])
    error_message = "admin_principal_arns: at least one ARN of an IAM role or user, else no one can use the cluster."
  }
}

variable "nodes" {
  description = "Machines of the node group. A Homeward node runs on a machine of its own; during an upgrade a machine has two, so it needs two cores."
  type = object({
    instance_types = optional(list(string), ["m7i.large"])
    ami_type       = optional(string, "AL2023_x86_64_STANDARD")
    min            = optional(number, 3)
    max            = optional(number, 6)
    disk_gib       = optional(number, 40)
  })
  default = {}
  validation {
    condition     = var.nodes.min >= 2 && var.nodes.max > var.nodes.min
    error_message = "nodes: min is two or more, and max above it: an update of the group needs one more machine."
  }
}

variable "merchant_cidrs" {
  description = "Networks that may reach the public API on port 443. Merchants are usually everywhere."
  type        = list(string)
  default     = ["0.0.0.0/0"]
  validation {
    condition     = length(var.merchant_cidrs) > 0 && alltrue([for c in var.merchant_cidrs : can(cidrhost(c, 0))])
    error_message = "merchant_cidrs: at least one network."
  }
}

variable "database" {
  description = "The database's private endpoint service (AWS PrivateLink), the name by which nodes call it, and its port. null: nodes reach the database otherwise, by peering or in the same VPC."
  type = object({
    service_name = string
    dns_name     = string
    port         = optional(number, 26257)
  })
  default = null
  validation {
    condition     = var.database == null || can(regex("^com\\.amazonaws\\.vpce\\.[a-z0-9-]+\\.vpce-svc-[0-9a-f]+$", var.database.service_name))
    error_message = "database.service_name: as com.amazonaws.vpce.REGION.vpce-svc-….."
  }
}

variable "secrets" {
  description = "Secrets of the region, created empty: set their values by hand, so that Terraform never has them."
  type        = set(string)
  default     = ["database", "database-owner", "gossip", "seal", "provider", "provider-webhook", "audit", "ca"]
  validation {
    condition     = alltrue([for s in ["database", "gossip", "ca"] : contains(var.secrets, s)])
    error_message = "secrets: database, gossip and ca are needed by every node."
  }
}

variable "shared" {
  description = "The resources that all regions share and one of them creates: output shared of that region. null: this is that region."
  type = object({
    buckets_region = string
    bodies_bucket  = string
    audit_bucket   = string
    bucket_key_arn = string
    seal_key_arn   = string
  })
  default = null
}

variable "audit_retention" {
  description = "How long S3 Object Lock keeps objects of the audit bucket: until then not even root can delete them. GOVERNANCE allows a privileged role to delete, for trials."
  type = object({
    mode  = optional(string, "COMPLIANCE")
    years = optional(number, 7)
  })
  default = {}
  validation {
    condition     = contains(["COMPLIANCE", "GOVERNANCE"], var.audit_retention.mode) && var.audit_retention.years >= 1
    error_message = "audit_retention: mode COMPLIANCE or GOVERNANCE, and a year at least."
  }
}

variable "log_days" {
  description = "How long to keep logs of the network and of the cluster's control plane, in days."
  type        = number
  default     = 90
  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_days)
    error_message = "log_days: one of the periods of CloudWatch Logs, as 30, 90 or 365."
  }
}

variable "deletion_protection" {
  description = "Refuse to destroy load balancers and cluster. Set it to false, and apply, before you remove a region permanently."
  type        = bool
  default     = true
}

variable "namespace" {
  description = "Kubernetes namespace of the release. Its service account may use the buckets and the sealing key."
  type        = string
  default     = "homeward"
}

variable "node_ports" {
  description = "Ports of the machines that load balancers use."
  type        = object({ api = optional(number, 30081), gossip = optional(number, 30946) })
  default     = {}
  validation {
    condition     = alltrue([for p in values(var.node_ports) : p >= 30000 && p <= 32767]) && var.node_ports.api != var.node_ports.gossip
    error_message = "node_ports: two different ports from 30000 to 32767."
  }
}

variable "tags" {
  description = "Tags of all resources of this module."
  type        = map(string)
  default     = {}
}
