# Connects the networks of two regions: a peering of the VPCs, routes both ways, and the three
# ports that nodes need. One provider makes both sides, with the region argument of each resource
# (AWS provider 6 and newer).
locals {
  sides = {
    a = { here = var.a, there = var.b }
    b = { here = var.b, there = var.a }
  }
  routes = merge([for side, s in local.sides : {
    for zone, id in s.here.route_table_ids : "${side}-${zone}" => { aws_region = s.here.aws_region, table = id, cidr = s.there.cidr }
  }]...)
  # RPC is TLS 1.3 with certificates that name the region; gossip has its own key.
  ports = {
    rpc        = { protocol = "tcp", port = var.ports.rpc }
    gossip     = { protocol = "tcp", port = var.ports.gossip }
    gossip-udp = { protocol = "udp", port = var.ports.gossip }
  }
  rules = merge([for side, s in local.sides : {
    for name, p in local.ports : "${side}-${name}" => merge(p, { name = name, aws_region = s.here.aws_region, group = s.here.nodes_security_group_id, cidr = s.there.cidr, from = s.there.region })
  }]...)
}

resource "aws_vpc_peering_connection" "this" {
  region      = var.a.aws_region
  vpc_id      = var.a.vpc_id
  peer_vpc_id = var.b.vpc_id
  peer_region = var.b.aws_region
  tags        = merge(var.tags, { Name = "${var.a.region}-${var.b.region}" })
}

resource "aws_vpc_peering_connection_accepter" "this" {
  region                    = var.b.aws_region
  vpc_peering_connection_id = aws_vpc_peering_connection.this.id
  auto_accept               = true
  tags                      = merge(var.tags, { Name = "${var.a.region}-${var.b.region}" })
}

resource "aws_route" "this" {
  for_each                  = local.routes
  region                    = each.value.aws_region
  route_table_id            = each.value.table
  destination_cidr_block    = each.value.cidr
  vpc_peering_connection_id = aws_vpc_peering_connection_accepter.this.vpc_peering_connection_id
}

resource "aws_vpc_security_group_ingress_rule" "nodes" {
  for_each          = local.rules
  region            = each.value.aws_region
  security_group_id = each.value.group
  cidr_ipv4         = each.value.cidr
  description       = "${each.value.name} of ${each.value.from}"
  ip_protocol       = each.value.protocol
  from_port         = each.value.port
  to_port           = each.value.port
  tags              = var.tags
}

resource "aws_vpc_security_group_ingress_rule" "gossip" {
  for_each          = local.sides
  region            = each.value.here.aws_region
  security_group_id = each.value.here.gossip_security_group_id
  cidr_ipv4         = each.value.there.cidr
  description       = "First contact of ${each.value.there.region}"
  ip_protocol       = "tcp"
  from_port         = var.ports.gossip
  to_port           = var.ports.gossip
  tags              = var.tags
}
