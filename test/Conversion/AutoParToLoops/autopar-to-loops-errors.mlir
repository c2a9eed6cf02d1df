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
