// RUN: autopar-opt %s --autopar-to-exec --split-input-file --verify-diagnostics

// What cannot become a program, and what is said of it.

// expected-error @+1 {{'builtin.module' op expected a function @main to lower}}
module {
}

// -----

autopar.mesh @mesh ["t" = 2]
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{'autopar.reshard' op is left: partition the function before lowering it}}
  %0 = autopar.reshard %x from <@mesh, [{}]> to <@mesh, [{"t"}]> : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{'arith.addf' op has no lowering to a kernel, a library call or a view}}
  %0 = arith.addf %x, %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// expected-error @+1 {{'func.func' op expected static tensors as arguments and results, got 'tensor<?xf32>'}}
func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}

// -----

// expected-error @+1 {{'func.func' op expected 'autopar.global_shape' to be array<i64> of 1 extents, got array<i64: 8, 8>}}
func.func @main(%x: tensor<8xf32> {autopar.global_shape = array<i64: 8, 8>}) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// -----

// expected-error @+1 {{'func.func' op has two arguments named "x"}}
func.func @main(%x: tensor<8xf32> {autopar.name = "x"}, %y: tensor<8xf32> {autopar.name = "x"}) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// -----

// expected-error @+1 {{'builtin.module' op expected the meshes to have the ranks 0 to 1, each on one of them}}
module {
  "autopar.mesh"() {sym_name = "mesh", axes = ["t"], sizes = array<i64: 2>, devices = array<i64: 0, 2>} : () -> ()
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}

// -----

autopar.mesh @mesh ["t" = 2]
func.func @main(%x: tensor<8xf32>) -> tensor<5xf32> {
  // expected-error @+1 {{'autopar.reduce_scatter' op expected dimension 0 of 'tensor<8xf32>' to be 2 times that of 'tensor<5xf32>'}}
  %0 = autopar.reduce_scatter sum %x dim 0 over @mesh ["t"] : tensor<8xf32> -> tensor<5xf32>
  return %0 : tensor<5xf32>
}

// -----

autopar.mesh @mesh ["t" = 2]
func.func @main(%x: tensor<5x4xf32>) -> tensor<3x8xf32> {
  // expected-error @+1 {{'autopar.all_to_all' op expected dimension 0 of 'tensor<5x4xf32>' to be divisible by 2}}
  %0 = autopar.all_to_all %x split 0 concat 1 over @mesh ["t"] : tensor<5x4xf32> -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}

// -----

autopar.mesh @mesh ["t" = 2]
func.func @main() -> tensor<2xi64> {
  // expected-error @+1 {{'autopar.shard_index' op expected an i64 scalar, got 'tensor<2xi64>'}}
  %0 = autopar.shard_index @mesh ["t"] : tensor<2xi64>
  return %0 : tensor<2xi64>
}

// -----

// expected-error @+1 {{'builtin.module' op has 2 functions for the meshes of stages, but declares 1 meshes}}
module {
  autopar.mesh @mesh ["t" = 2]
  func.func @first(%x: tensor<8xf32>) attributes {autopar.stage = 0 : i64} {
    return
  }
  func.func @second(%x: tensor<8xf32>) attributes {autopar.stage = 1 : i64} {
    return
  }
}

// -----

autopar.mesh @mesh ["t" = 2]
func.func @main(%x: tensor<8xf32>) {
  // expected-error @+1 {{'autopar.send' op names mesh 3, but the module declares 1}}
  autopar.send %x to 3 tag 0 : tensor<8xf32>
  return
}

// -----

func.func @main() -> tensor<8xf32> {
  // expected-error @+1 {{'autopar.receive' op names mesh 0, but the module declares 0}}
  %0 = autopar.receive from 0 tag 0 : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

autopar.mesh @m0 ["t" = 2]
autopar.mesh @m1 ["t" = 1] devices [2]
func.func @main(%x: tensor<8xf32>) attributes {autopar.stage = 0 : i64} {
  // expected-error @+1 {{'autopar.send' op lists 1 peers for the 2 ranks of its mesh}}
  autopar.send %x to 1 peers [2] tag 0 : tensor<8xf32>
  return
}

// -----

autopar.mesh @m0 ["t" = 2]
autopar.mesh @m1 ["t" = 1] devices [2]
func.func @main(%x: tensor<8xf32>) attributes {autopar.stage = 0 : i64} {
  // expected-error @+1 {{'autopar.send' op lists no peers, and mesh 1 has fewer than the 2 ranks of its own}}
  autopar.send %x to 1 tag 0 : tensor<8xf32>
  return
}

// -----

module {
  autopar.mesh @mesh ["t" = 2]
  // expected-error @+1 {{'func.func' op is of stage 1, but the module declares 1 meshes}}
  func.func @second(%x: tensor<8xf32>) -> tensor<8xf32> attributes {autopar.stage = 1 : i64} {
    return %x : tensor<8xf32>
  }
}

// -----

// expected-error @+1 {{'func.func' op has two results named "y"}}
func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32> {autopar.name = "y"}, tensor<8xf32> {autopar.name = "y"}) {
  return %x, %x : tensor<8xf32>, tensor<8xf32>
}
