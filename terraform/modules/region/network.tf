locals {
  id    = "${var.name}-${var.region}"
  tags  = merge({ "homeward.io/deployment" = var.name, "homeward.io/region" = var.region }, var.tags)
  zones = { for i, zone in var.availability_zones : zone => i }
  nats  = var.nat == "single" ? { (var.availability_zones[0]) = 0 } : local.zones
}

resource "aws_vpc" "this" {
  cidr_block           = var.vpc_cidr
  enable_dns_support   = true
  enable_dns_hostnames = true
  tags                 = merge(local.tags, { Name = local.id })
}

# The default group of a VPC lets its members reach each other. Without rules, a member by mistake
# reaches nothing.
resource "aws_default_security_group" "this" {
  vpc_id = aws_vpc.this.id
  tags   = local.tags
}

resource "aws_internet_gateway" "this" {
  vpc_id = aws_vpc.this.id
  tags   = merge(local.tags, { Name = local.id })
}

# Machines and pods: a /19 to each zone, as pods have addresses of the VPC.
resource "aws_subnet" "private" {
  for_each          = local.zones
  vpc_id            = aws_vpc.this.id
  availability_zone = each.key
  cidr_block        = cidrsubnet(var.vpc_cidr, 3, each.value)
  tags              = merge(local.tags, { Name = "${local.id}-private-${each.key}", "kubernetes.io/role/internal-elb" = "1" })
}

# NAT gateways and the public load balancer, and nothing else.
resource "aws_subnet" "public" {
  for_each                = local.zones
  vpc_id                  = aws_vpc.this.id
  availability_zone       = each.key
  cidr_block              = cidrsubnet(var.vpc_cidr, 8, 224 + each.value)
  map_public_ip_on_launch = false
  tags                    = merge(local.tags, { Name = "${local.id}-public-${each.key}" })
}

resource "aws_eip" "nat" {
  for_each = local.nats
  domain   = "vpc"
  tags     = merge(local.tags, { Name = "${local.id}-${each.key}" })
}

resource "aws_nat_gateway" "this" {
  for_each      = local.nats
  allocation_id = aws_eip.nat[each.key].id
  subnet_id     = aws_subnet.public[each.key].id
  tags          = merge(local.tags, { Name = "${local.id}-${each.key}" })
  depends_on    = [aws_internet_gateway.this]
}

resource "aws_route_table" "public" {
  vpc_id = aws_vpc.this.id
  tags   = merge(local.tags, { Name = "${local.id}-public" })
}

resource "aws_route" "out" {
  route_table_id         = aws_route_table.public.id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway.this.id
}

resource "aws_route_table_association" "public" {
  for_each       = local.zones
  subnet_id      = aws_subnet.public[each.key].id
  route_table_id = aws_route_table.public.id
}

resource "aws_route_table" "private" {
  for_each = local.zones
  vpc_id   = aws_vpc.this.id
  tags     = merge(local.tags, { Name = "${local.id}-private-${each.key}" })
}

resource "aws_route" "nat" {
  for_each               = local.zones
  route_table_id         = aws_route_table.private[each.key].id
  destination_cidr_block = "0.0.0.0/0"
  nat_gateway_id         = aws_nat_gateway.this[var.nat == "single" ? var.availability_zones[0] : each.key].id
}

resource "aws_route_table_association" "private" {
  for_each       = local.zones
  subnet_id      = aws_subnet.private[each.key].id
  route_table_id = aws_route_table.private[each.key].id
}

data "aws_region" "current" {}

data "aws_partition" "current" {}

data "aws_caller_identity" "current" {}

# Nodes reach buckets without NAT, which costs by the gigabyte.
resource "aws_vpc_endpoint" "s3" {
  vpc_id            = aws_vpc.this.id
  service_name      = "com.amazonaws.${data.aws_region.current.region}.s3"
  vpc_endpoint_type = "Gateway"
  route_table_ids   = [for t in aws_route_table.private : t.id]
  tags              = merge(local.tags, { Name = "${local.id}-s3" })
}

resource "aws_cloudwatch_log_group" "flow" {
  name              = "/homeward/${local.id}/flow"
  retention_in_days = var.log_days
  tags              = local.tags
}

resource "aws_flow_log" "this" {
  vpc_id          = aws_vpc.this.id
  traffic_type    = "REJECT"
  log_destination = aws_cloudwatch_log_group.flow.arn
  iam_role_arn    = aws_iam_role.flow.arn
  tags            = local.tags
}
