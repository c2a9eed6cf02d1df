// RUN: autopar-opt %s --split-input-file --verify-diagnostics --autopar-to-loops

func.func @main(%x: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<3xf32>) {
  // expected-error @+1 {{cannot become one kernel: result 1 of type 'tensor<3xf32>' has neither the elements nor the rows of the kernel's iteration space [8, 4]}}
  %0:2 = autopar.group %x : (tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<3xf32>) {
  ^bb0(%a: tensor<8x4xf32>):
    %y = autopar.unary neg %a : tensor<8x4xf32>
    %c = autopar.constant dense<1.0> : tensor<3xf32>
    autopar.yield %y, %c : tensor<8x4xf32>, tensor<3xf32>
  }
  return %0#0, %0#1 : tensor<8x4xf32>, tensor<3xf32>
}

// -----

func.func @main(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{'autopar.group' op has no results to compute}}
  "autopar.group"(%x) ({
  ^bb0(%a: tensor<8x4xf32>):
    autopar.yield
  }) : (tensor<8x4xf32>) -> ()
  return
}

// -----

func.func @main(%x: tensor<8x16xbf16>, %w: tensor<2x16x8xbf16>, %order: tensor<256xi32>, %group: tensor<2xi32>) -> tensor<8x8xbf16> {
  // expected-error @+1 {{'autopar.grouped_dot_tiles' op has a kernel for GPUs alone; on CPUs it is a library call before it is written so}}
  %y = autopar.grouped_dot_tiles %x, %w, %order, %group : (tensor<8x16xbf16>, tensor<2x16x8xbf16>, tensor<256xi32>, tensor<2xi32>) -> tensor<8x8xbf16>
  return %y : tensor<8x8xbf16>
}
