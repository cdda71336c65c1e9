output "id" {
  description = "The peering connection."
  value       = aws_vpc_peering_connection_accepter.this.vpc_peering_connection_id
}
