mock_provider "aws" {}

variables {
  a = { region = "us", aws_region = "us-east-1", vpc_id = "vpc-a", cidr = "10.10.0.0/16", route_table_ids = { x = "rtb-a1", y = "rtb-a2" }, nodes_security_group_id = "sg-a", gossip_security_group_id = "sg-ga" }
  b = { region = "eu", aws_region = "eu-west-1", vpc_id = "vpc-b", cidr = "10.20.0.0/16", route_table_ids = { x = "rtb-b1" }, nodes_security_group_id = "sg-b", gossip_security_group_id = "sg-gb" }
}

run "both_ways" {
  assert {
    condition     = length(aws_route.this) == 3 && aws_route.this["a-y"].destination_cidr_block == "10.20.0.0/16" && aws_route.this["b-x"].region == "eu-west-1"
    error_message = "Each route table has the other side's network."
  }
  assert {
    condition     = toset([for r in aws_vpc_security_group_ingress_rule.nodes : "${r.security_group_id} ${r.ip_protocol} ${r.from_port} ${r.cidr_ipv4}"]) == toset(["sg-a tcp 7081 10.20.0.0/16", "sg-a tcp 7946 10.20.0.0/16", "sg-a udp 7946 10.20.0.0/16", "sg-b tcp 7081 10.10.0.0/16", "sg-b tcp 7946 10.10.0.0/16", "sg-b udp 7946 10.10.0.0/16"])
    error_message = "RPC and gossip, TCP and UDP, from the other side only."
  }
}

run "refuses_networks_that_overlap" {
  command = plan
  variables {
    b = { region = "eu", aws_region = "eu-west-1", vpc_id = "vpc-b", cidr = "10.10.0.0/16", route_table_ids = {}, nodes_security_group_id = "sg-b", gossip_security_group_id = "sg-gb" }
  }
  expect_failures = [var.b]
}
