output "region" {
  description = "Homeward's name of the region."
  value       = var.region
}

output "cluster" {
  description = "The EKS cluster, for the helm provider: name, AWS region, endpoint and CA in base64."
  value = {
    name       = aws_eks_cluster.this.name
    aws_region = data.aws_region.current.region
    endpoint   = aws_eks_cluster.this.endpoint
    ca         = aws_eks_cluster.this.certificate_authority[0].data
  }
}

output "network" {
  description = "The region's values for modules/peering."
  value = {
    region                   = var.region
    aws_region               = data.aws_region.current.region
    vpc_id                   = aws_vpc.this.id
    cidr                     = var.vpc_cidr
    route_table_ids          = { for zone, t in aws_route_table.private : zone => t.id }
    nodes_security_group_id  = local.nodes_security_group
    gossip_security_group_id = aws_security_group.gossip.id
  }
}

output "private_subnet_ids" {
  description = "Subnets of machines and pods, by zone."
  value       = { for zone, s in aws_subnet.private : zone => s.id }
}

output "entry" {
  description = "The region's values for modules/global."
  value = {
    aws_region       = data.aws_region.current.region
    lb_arn           = aws_lb.public.arn
    lb_dns_name      = aws_lb.public.dns_name
    lb_zone_id       = aws_lb.public.zone_id
    target_group_arn = aws_lb_target_group.api.arn
  }
}

output "peer" {
  description = "This region's values for the releases of other regions: its gossip address and its networks."
  value = {
    gossip = ["${aws_lb.gossip.dns_name}:7946"]
    cidrs  = [var.vpc_cidr]
  }
}

output "release" {
  description = "The region's values for modules/homeward."
  value = {
    region     = var.region
    aws_region = data.aws_region.current.region
    namespace  = var.namespace
    node_ports = var.node_ports
    secrets    = { for name, s in aws_secretsmanager_secret.this : name => s.name }
    shared     = local.shared
    seal_url   = "awskms://alias/${var.name}-seal"
  }
}

output "shared" {
  description = "The resources that this region has created for all: pass it to the others."
  value       = local.shared
}

output "database_endpoint_id" {
  description = "The VPC endpoint to the database, which the database's side must accept; null if there is none."
  value       = one(aws_vpc_endpoint.database[*].id)
}

output "nat_addresses" {
  description = "Addresses from which the region calls the provider and merchants' endpoints, for their allow lists."
  value       = [for e in aws_eip.nat : e.public_ip]
}
