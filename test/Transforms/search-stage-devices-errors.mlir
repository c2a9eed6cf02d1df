// RUN: autopar-opt %s --split-input-file --verify-diagnostics --autopar-search=cluster=presets:cpux2

// What a function says of the devices of its stages, and what a cluster does not have.

// expected-error @+1 {{has 3 stage meshes on 2 devices; expected at least one device for each}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {autopar.stage_meshes = 3 : i64, autopar.schedule = "gpipe"} {
  %0 = autopar.transfer %x to 0 {autopar.id = "x/to.0"} : tensor<4xf32>
  %1 = autopar.unary exp %0 {autopar.id = "a"} : tensor<4xf32>
  %2 = autopar.transfer %1 to 1 {autopar.id = "a/to.1"} : tensor<4xf32>
  %3 = autopar.unary exp %2 {autopar.id = "b"} : tensor<4xf32>
  %4 = autopar.transfer %3 to 2 {autopar.id = "b/to.2"} : tensor<4xf32>
  %5 = autopar.unary exp %4 {autopar.id = "c"} : tensor<4xf32>
  return %5 : tensor<4xf32>
}

// -----

// expected-error @+1 {{'autopar.stage_devices' names device 2, the cluster has 2}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {autopar.stage_devices = [array<i64: 0, 2>]} {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{'autopar.stage_devices' has the devices of 2 meshes; expected 1}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {autopar.stage_devices = [array<i64: 0>, array<i64: 1>]} {
  return %x : tensor<4xf32>
}
