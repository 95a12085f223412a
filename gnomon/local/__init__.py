"""The whole product on one machine: tools, emulator, deployment, users. `make help` lists the commands."""
