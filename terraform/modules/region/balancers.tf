locals {
  nodes_security_group = aws_eks_cluster.this.vpc_config[0].cluster_security_group_id
  machines             = aws_eks_node_group.this.resources[0].autoscaling_groups[0].name
  public               = contains(var.merchant_cidrs, "0.0.0.0/0")
}

# The load balancer for merchants. modules/global makes its listener, which needs a certificate:
# until then nothing listens.
resource "aws_security_group" "public" {
  name_prefix = "${local.id}-public-"
  description = "Merchants to the public load balancer"
  vpc_id      = aws_vpc.this.id
  tags        = local.tags
  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_vpc_security_group_ingress_rule" "merchants" {
  for_each          = toset(var.merchant_cidrs)
  security_group_id = aws_security_group.public.id
  cidr_ipv4         = each.key
  description       = "HTTPS of merchants"
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
  tags              = local.tags
}

# If not everyone may connect, Route 53's health checkers still must.
data "aws_ec2_managed_prefix_list" "health" {
  count = local.public ? 0 : 1
  name  = "com.amazonaws.${data.aws_region.current.region}.route53-healthchecks"
}

resource "aws_vpc_security_group_ingress_rule" "health" {
  count             = local.public ? 0 : 1
  security_group_id = aws_security_group.public.id
  prefix_list_id    = data.aws_ec2_managed_prefix_list.health[0].id
  description       = "Health checks of Route 53"
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
  tags              = local.tags
}

resource "aws_vpc_security_group_egress_rule" "public" {
  security_group_id            = aws_security_group.public.id
  referenced_security_group_id = local.nodes_security_group
  description                  = "To nodes, and nowhere else"
  ip_protocol                  = "tcp"
  from_port                    = var.node_ports.api
  to_port                      = var.node_ports.api
  tags                         = local.tags
}

resource "aws_vpc_security_group_ingress_rule" "api" {
  security_group_id            = local.nodes_security_group
  referenced_security_group_id = aws_security_group.public.id
  description                  = "The API, from the public load balancer"
  ip_protocol                  = "tcp"
  from_port                    = var.node_ports.api
  to_port                      = var.node_ports.api
  tags                         = local.tags
}

resource "aws_lb" "public" {
  # AWS allows at most 32 characters.
  name                       = trimsuffix(substr(local.id, 0, 32), "-")
  load_balancer_type         = "application"
  internal                   = false
  subnets                    = [for s in aws_subnet.public : s.id]
  security_groups            = [aws_security_group.public.id]
  drop_invalid_header_fields = true
  enable_deletion_protection = var.deletion_protection
  # Longer than the slowest charge (a provider's 80 s), so that the node answers first.
  idle_timeout = 120
  tags         = local.tags
}

resource "aws_lb_target_group" "api" {
  name_prefix = "api-"
  vpc_id      = aws_vpc.this.id
  target_type = "instance"
  protocol    = "HTTP"
  port        = var.node_ports.api
  # As long as the slowest request takes, so that open requests are answered.
  deregistration_delay = 120
  tags                 = local.tags

  # The Service sends to pods of the same machine only, so a machine is as ready as its node. A drained
  # region still answers, by its ready nodes: with the region in the check, every machine would fail it,
  # and the balancer would send to all, also to one without a node.
  health_check {
    path                = "/readyz?exclude=region"
    port                = "traffic-port"
    protocol            = "HTTP"
    matcher             = "200"
    interval            = 5
    timeout             = 4
    healthy_threshold   = 2
    unhealthy_threshold = 2
  }

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_autoscaling_attachment" "api" {
  autoscaling_group_name = local.machines
  lb_target_group_arn    = aws_lb_target_group.api.arn
}

# Nodes of other regions make first contact here. From then on nodes reach each other at their own
# addresses, by the peering.
resource "aws_security_group" "gossip" {
  name_prefix = "${local.id}-gossip-"
  description = "Other regions to the internal load balancer of gossip"
  vpc_id      = aws_vpc.this.id
  tags        = local.tags
  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_vpc_security_group_egress_rule" "gossip" {
  security_group_id            = aws_security_group.gossip.id
  referenced_security_group_id = local.nodes_security_group
  description                  = "To nodes, and nowhere else"
  ip_protocol                  = "tcp"
  from_port                    = var.node_ports.gossip
  to_port                      = var.node_ports.gossip
  tags                         = local.tags
}

resource "aws_vpc_security_group_ingress_rule" "gossip" {
  security_group_id            = local.nodes_security_group
  referenced_security_group_id = aws_security_group.gossip.id
  description                  = "Gossip, from its load balancer"
  ip_protocol                  = "tcp"
  from_port                    = var.node_ports.gossip
  to_port                      = var.node_ports.gossip
  tags                         = local.tags
}

resource "aws_lb" "gossip" {
  name                             = "${trimsuffix(substr(local.id, 0, 24), "-")}-gossip"
  load_balancer_type               = "network"
  internal                         = true
  subnets                          = [for s in aws_subnet.private : s.id]
  security_groups                  = [aws_security_group.gossip.id]
  enable_cross_zone_load_balancing = true
  enable_deletion_protection       = var.deletion_protection
  tags                             = local.tags
}

resource "aws_lb_target_group" "gossip" {
  name_prefix = "gossip"
  vpc_id      = aws_vpc.this.id
  target_type = "instance"
  protocol    = "TCP"
  port        = var.node_ports.gossip
  tags        = local.tags
  health_check {
    protocol = "TCP"
  }
  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_lb_listener" "gossip" {
  load_balancer_arn = aws_lb.gossip.arn
  port              = 7946
  protocol          = "TCP"
  tags              = local.tags
  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.gossip.arn
  }
}

resource "aws_autoscaling_attachment" "gossip" {
  autoscaling_group_name = local.machines
  lb_target_group_arn    = aws_lb_target_group.gossip.arn
}
