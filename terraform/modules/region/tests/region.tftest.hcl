mock_provider "aws" {
  mock_data "aws_region" {
    defaults = { region = "us-east-1" }
  }
  mock_resource "aws_eks_cluster" {
    defaults = {
      vpc_config            = { cluster_security_group_id = "sg-nodes" }
      certificate_authority = [{ data = "Y2E=" }]
    }
  }
  mock_resource "aws_eks_node_group" {
    defaults = { resources = [{ autoscaling_groups = [{ name = "machines" }], remote_access_security_group_id = "" }] }
  }
  mock_resource "aws_vpc_endpoint" {
    defaults = { dns_entry = [{ dns_name = "vpce-1.example", hosted_zone_id = "Z1" }] }
  }
}

variables {
  region               = "us-east-1"
  vpc_cidr             = "10.10.0.0/16"
  availability_zones   = ["us-east-1a", "us-east-1b", "us-east-1c"]
  kubernetes_version   = "1.34"
  admin_principal_arns = ["arn:aws:iam::123456789012:role/admin"]
}

run "first_region" {
  # The test only plans resources that must not be destroyed.
  command = plan
  assert {
    condition     = !aws_eks_cluster.this.vpc_config[0].endpoint_public_access && aws_lb.gossip.internal
    error_message = "The Kubernetes API and gossip are private by default."
  }
  assert {
    condition     = length(aws_s3_bucket.this) == 2 && alltrue([for b in aws_s3_bucket_public_access_block.this : b.block_public_acls && b.block_public_policy && b.ignore_public_acls && b.restrict_public_buckets])
    error_message = "The first region makes both buckets, and neither can be made public."
  }
  assert {
    condition     = aws_s3_bucket.this["audit"].object_lock_enabled && aws_s3_bucket_object_lock_configuration.audit[0].rule[0].default_retention[0].mode == "COMPLIANCE"
    error_message = "Audit is locked."
  }
  assert {
    condition     = length(distinct(concat([for s in aws_subnet.private : s.cidr_block], [for s in aws_subnet.public : s.cidr_block]))) == 6
    error_message = "Each zone has a private and a public subnet of its own."
  }
  assert {
    condition     = length(aws_nat_gateway.this) == 3 && !anytrue([for s in aws_subnet.public : s.map_public_ip_on_launch])
    error_message = "A NAT gateway in each zone, and no machine with a public address."
  }
  assert {
    condition     = aws_lb_target_group.api.health_check[0].path == "/readyz?exclude=region"
    error_message = "The balancer sends to a machine while its node is ready, also in a drained region."
  }
  assert {
    condition     = aws_launch_template.nodes.metadata_options[0].http_tokens == "required" && aws_launch_template.nodes.metadata_options[0].http_put_response_hop_limit == 1
    error_message = "Pods cannot reach the machine's credentials."
  }
  assert {
    condition     = length(aws_vpc_endpoint.database) == 0
    error_message = "There is no endpoint without a database."
  }
}

run "further_region" {
  variables {
    region = "eu-west-1"
    shared = {
      buckets_region = "us-east-1"
      bodies_bucket  = "homeward-bodies-1"
      audit_bucket   = "homeward-audit-1"
      bucket_key_arn = "arn:aws:kms:us-east-1:1:key/a"
      seal_key_arn   = "arn:aws:kms:us-east-1:1:key/mrk-b"
    }
    nat            = "single"
    merchant_cidrs = ["192.0.2.0/24"]
    database       = { service_name = "com.amazonaws.vpce.eu-west-1.vpce-svc-0a1b", dns_name = "internal-db.example" }
  }
  assert {
    condition     = length(aws_s3_bucket.this) == 0 && length(aws_kms_key.seal) == 0 && aws_kms_replica_key.seal[0].primary_key_arn == var.shared.seal_key_arn
    error_message = "Buckets are one region's, and the sealing key is replicated."
  }
  assert {
    condition     = !contains(flatten(data.aws_iam_policy_document.homeward.statement[*].actions), "s3:DeleteObject") && !contains(flatten(data.aws_iam_policy_document.homeward.statement[*].resources), "*")
    error_message = "Nodes delete no object, and no right covers all resources."
  }
  assert {
    condition     = output.shared == var.shared
    error_message = "The output shared passes the shared resources on."
  }
  assert {
    condition     = length(aws_nat_gateway.this) == 1 && length(aws_vpc_security_group_ingress_rule.health) == 1
    error_message = "One NAT gateway if set, and health checkers may connect if not everyone may."
  }
  assert {
    condition     = aws_route53_record.database[0].name == "internal-db.example" && aws_vpc_security_group_ingress_rule.database[0].from_port == 26257
    error_message = "Nodes call the database by its own name, through the endpoint."
  }
}

run "refuses_an_open_kubernetes_api" {
  command = plan
  variables {
    api_public_cidrs = ["0.0.0.0/0"]
  }
  expect_failures = [var.api_public_cidrs]
}

run "refuses_one_zone" {
  command = plan
  variables {
    availability_zones = ["us-east-1a"]
  }
  expect_failures = [var.availability_zones]
}

run "refuses_a_cluster_nobody_can_enter" {
  command = plan
  variables {
    admin_principal_arns = []
  }
  expect_failures = [var.admin_principal_arns]
}
