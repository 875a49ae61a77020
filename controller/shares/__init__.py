"""What the host shares with planes: from objects of one namespace to their copies, kept up by a task for each tenant."""
