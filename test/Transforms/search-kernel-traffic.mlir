// RUN: autopar-opt %s --split-input-file --autopar-search="cluster=presets:cpux1" | FileCheck %s

// A search prices operations by what passes through memory once they are in kernels, here 8 bytes a ns: 4 MiB take 524.3 us.

// A chain that ends in a sum reads its argument once, however often it stands in it.
// CHECK: step_us\22:525.8
func.func @main(%x: tensor<1024x1024xf32> {autopar.name = "x"}) -> (tensor<1024xf32> {autopar.name = "y"}) {
  %0 = autopar.unary exp %x {autopar.id = "exp"} : tensor<1024x1024xf32>
  %1 = autopar.binary mul %0, %x {autopar.id = "mul"} : tensor<1024x1024xf32>
  %2 = autopar.reduce sum %1 dims [1] {autopar.id = "sum"} : tensor<1024x1024xf32> -> tensor<1024xf32>
  return %2 : tensor<1024xf32>
}

// -----

// What two kernels read is stored by the one that makes it: x read, a written and read twice.
// CHECK: step_us\22:2100.
func.func @main(%x: tensor<1024x1024xf32> {autopar.name = "x"}) -> (tensor<1024xf32> {autopar.name = "y"}, tensor<1024xf32> {autopar.name = "z"}) {
  %0 = autopar.unary exp %x {autopar.id = "a"} : tensor<1024x1024xf32>
  %1 = autopar.reduce sum %0 dims [1] {autopar.id = "rows"} : tensor<1024x1024xf32> -> tensor<1024xf32>
  %2 = autopar.reduce sum %0 dims [0] {autopar.id = "columns"} : tensor<1024x1024xf32> -> tensor<1024xf32>
  return %1, %2 : tensor<1024xf32>, tensor<1024xf32>
}

// -----

// A row operation hands its result on: x is read, y written.
// CHECK: step_us\22:1050.
func.func @main(%x: tensor<1024x1024xf32> {autopar.name = "x"}, %s: tensor<1024xf32> {autopar.name = "s"}) -> (tensor<1024x1024xf32> {autopar.name = "y"}) {
  %0 = autopar.softmax %x dim 1 {autopar.id = "softmax"} : tensor<1024x1024xf32>
  %1 = autopar.broadcast %s dims [1] {autopar.id = "all"} : tensor<1024xf32> -> tensor<1024x1024xf32>
  %2 = autopar.binary mul %0, %1 {autopar.id = "mul"} : tensor<1024x1024xf32>
  return %2 : tensor<1024x1024xf32>
}

// -----

// A product stores what its epilogue makes: it takes 38,349 us, and the residual is read.
// CHECK: step_us\22:38873.
func.func @main(%x: tensor<1024x1024xf32> {autopar.name = "x"}, %w: tensor<1024x1024xf32> {autopar.name = "w"}, %r: tensor<1024x1024xf32> {autopar.name = "r"}) -> (tensor<1024x1024xf32> {autopar.name = "y"}) {
  %0 = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "fc"} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %1 = autopar.binary add %0, %r {autopar.id = "add"} : tensor<1024x1024xf32>
  %2 = autopar.unary relu %1 {autopar.id = "relu"} : tensor<1024x1024xf32>
  return %2 : tensor<1024x1024xf32>
}
