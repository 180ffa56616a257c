module siltstone-example

go 1.21
