// RUN: autopar-opt %s --split-input-file --verify-diagnostics

// What operations that compute must not be.

func.func @f(%0: tensor<4xi1>) {
  // expected-error @+1 {{'autopar.unary' op is not defined on i1}}
  %r = autopar.unary neg %0 : tensor<4xi1>
  return
}

// -----

func.func @f(%0: tensor<4xf32>) {
  // expected-error @+1 {{'autopar.unary' op expects integers, got 'f32'}}
  %r = autopar.unary not %0 : tensor<4xf32>
  return
}

// -----

func.func @f(%0: tensor<4xf32>) {
  // expected-error @+1 {{'autopar.binary' op expects integers, got 'f32'}}
  %r = autopar.binary and %0, %0 : tensor<4xf32>
  return
}

// -----

func.func @f(%0: tensor<4xi1>) {
  // expected-error @+1 {{'autopar.binary' op is not defined on i1}}
  %r = autopar.binary add %0, %0 : tensor<4xi1>
  return
}

// -----

func.func @f(%0: tensor<4xf32>) {
  // expected-error @+1 {{'autopar.cast' op overflows to a float of 8 bits or less, got 'bf16'}}
  %r = autopar.cast overflows %0 : tensor<4xf32> -> tensor<4xbf16>
  return
}

// -----

func.func @f(%0: tensor<4xf32>) {
  // expected-error @+1 {{'autopar.bitcast' op expects types of one width, got 'f32' and 'i64'}}
  %r = autopar.bitcast %0 : tensor<4xf32> -> tensor<4xi64>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'autopar.iota' op dimension 1 is out of range for 'tensor<4xi64>'}}
  %r = autopar.iota dim 1 : tensor<4xi64>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'autopar.iota' op is not defined on i1}}
  %r = autopar.iota dim 0 : tensor<4xi1>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'autopar.random' op expects a global shape of the result's rank}}
  %r = autopar.random uniform seed 1 stream 0 of [4, 4] : () -> tensor<4xf32>
  return
}

// -----

func.func @f(%0: tensor<i64>) {
  // expected-error @+1 {{'autopar.random' op expects no offsets or one per dimension}}
  %r = autopar.random uniform seed 1 stream 0 of [4, 4] at [%0] : (tensor<i64>) -> tensor<4x4xf32>
  return
}

// -----

func.func @f(%0: tensor<4x4xf32>) {
  // expected-error @+1 {{'autopar.reduce' op expects ascending dimensions}}
  %r = autopar.reduce sum %0 dims [1, 0] : tensor<4x4xf32> -> tensor<f32>
  return
}

// -----

func.func @f(%0: tensor<4x4xf32>) {
  // expected-error @+1 {{'autopar.reduce' op expects result shape [4], got 'tensor<f32>'}}
  %r = autopar.reduce sum %0 dims [1] : tensor<4x4xf32> -> tensor<f32>
  return
}

// -----

func.func @f(%0: tensor<4x4xf32>) {
  // expected-error @+1 {{'autopar.reduce' op dimension 2 is out of range for 'tensor<4x4xf32>'}}
  %r = autopar.reduce sum %0 dims [2] : tensor<4x4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%0: tensor<4x4xf32>) {
  // expected-error @+1 {{'autopar.reduce' op expects operand and result of one element type}}
  %r = autopar.reduce sum %0 dims [1] : tensor<4x4xf32> -> tensor<4xi32>
  return
}

// -----

func.func @f(%0: tensor<4x4xf32>) {
  // expected-error @+1 {{'autopar.reduce' op and is not defined on 'f32'}}
  %r = autopar.reduce and %0 dims [1] : tensor<4x4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%0: tensor<4x4xf32>) {
  // expected-error @+1 {{'autopar.arg_reduce' op expects max or min}}
  %r = autopar.arg_reduce sum %0 dim 1 : tensor<4x4xf32> -> tensor<4xi64>
  return
}

// -----

func.func @f(%0: tensor<4x4xf32>) {
  // expected-error @+1 {{'autopar.arg_reduce' op expects an i64 result}}
  %r = autopar.arg_reduce max %0 dim 1 : tensor<4x4xf32> -> tensor<4xi32>
  return
}

// -----

func.func @f(%0: tensor<4x4xf32>) {
  // expected-error @+1 {{'autopar.pool' op expects 2 entries per window attribute, got 1}}
  %r = autopar.pool max %0 {window = array<i64: 2>, strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, dilations = array<i64: 1, 1>} : tensor<4x4xf32> -> tensor<3x3xf32>
  return
}

// -----

func.func @f(%0: tensor<4x4xf32>) {
  // expected-error @+1 {{'autopar.pool' op expects operand and result of one rank}}
  %r = autopar.pool max %0 {window = array<i64: 2, 2>, strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, dilations = array<i64: 1, 1>} : tensor<4x4xf32> -> tensor<3xf32>
  return
}

// -----

func.func @f(%0: tensor<4x4xf32>) {
  // expected-error @+1 {{'autopar.pool' op expects positive windows, strides and dilations and no negative pads}}
  %r = autopar.pool max %0 {window = array<i64: 0, 2>, strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, dilations = array<i64: 1, 1>} : tensor<4x4xf32> -> tensor<3x3xf32>
  return
}

// -----

func.func @f(%0: tensor<4x4xf32>) {
  // expected-error @+1 {{'autopar.pool' op dimension 1 of the result should be 3, got 4}}
  %r = autopar.pool max %0 {window = array<i64: 2, 2>, strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, dilations = array<i64: 1, 1>} : tensor<4x4xf32> -> tensor<3x4xf32>
  return
}

// -----

func.func @f(%0: tensor<4x4xf32>) {
  // expected-error @+1 {{'autopar.pool' op expects operand and result of one element type}}
  %r = autopar.pool max %0 {window = array<i64: 2, 2>, strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, dilations = array<i64: 1, 1>} : tensor<4x4xf32> -> tensor<3x3xi32>
  return
}

// -----

func.func @f(%0: tensor<4x4xf32>) {
  // expected-error @+1 {{'autopar.arg_pool' op expects an i64 result}}
  %r = autopar.arg_pool %0 {window = array<i64: 2, 2>, strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, dilations = array<i64: 1, 1>} : tensor<4x4xf32> -> tensor<3x3xi32>
  return
}

// -----

func.func @f(%0: tensor<4xi1>) {
  // expected-error @+1 {{'autopar.cumulative' op expects sum, prod, max or min}}
  %r = autopar.cumulative and %0 dim 0 : tensor<4xi1>
  return
}

// -----

func.func @f(%0: tensor<4xi32>) {
  // expected-error @+1 {{'autopar.softmax' op expects floats, got 'tensor<4xi32>'}}
  %r = autopar.softmax %0 dim 0 : tensor<4xi32>
  return
}

// -----

func.func @f(%0: tensor<4xi32>) {
  // expected-error @+1 {{'autopar.softmax_grad' op expects floats, got 'tensor<4xi32>'}}
  %r = autopar.softmax_grad %0, %0 dim 0 : tensor<4xi32>
  return
}

// -----

func.func @f(%0: tensor<4xf32>) {
  // expected-error @+1 {{'autopar.unary_grad' op expects relu, gelu, gelu_tanh or silu, got tanh}}
  %r = autopar.unary_grad tanh %0, %0 : tensor<4xf32>
  return
}

// -----

func.func @f(%0: tensor<4xi32>) {
  // expected-error @+1 {{'autopar.unary_grad' op expects floats, got 'i32'}}
  %r = autopar.unary_grad gelu %0, %0 : tensor<4xi32>
  return
}

// -----

func.func @f(%0: tensor<4x4xf32>) {
  // expected-error @+1 {{'autopar.normalize_grad' op expects trailing dimensions}}
  %r = autopar.normalize_grad %0, %0, %0 dims [0] epsilon 1.0 : tensor<4x4xf32>
  return
}

// -----

func.func @f(%0: tensor<4x4xf32>) {
  // expected-error @+1 {{'autopar.normalize_again' op expects trailing dimensions}}
  %r = autopar.normalize_again %0 dims [0] epsilon 1.0 : tensor<4x4xf32>
  return
}

// -----

func.func @f(%0: tensor<4x4xf32>) {
  // expected-error @+1 {{'autopar.normalize' op expects trailing dimensions}}
  %r = autopar.normalize %0 dims [0] epsilon 1.0 : tensor<4x4xf32>
  return
}

// -----

func.func @f(%0: tensor<4x4xf32>) {
  // expected-error @+1 {{'autopar.top_k' op expects values and indices of the input's shape with at most 4 along dimension 1}}
  %r:2 = autopar.top_k %0 dim 1 : (tensor<4x4xf32>) -> (tensor<4x5xf32>, tensor<4x5xi64>)
  return
}

// -----

func.func @f(%0: tensor<4x4xf32>) {
  // expected-error @+1 {{'autopar.top_k' op expects values of the input's element type and i64 indices}}
  %r:2 = autopar.top_k %0 dim 1 : (tensor<4x4xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
  return
}

// -----

func.func @f(%0: tensor<2x3xf32>, %1: tensor<3x4xf32>) {
  // expected-error @+1 {{'autopar.dot_general' op expects result shape [2, 4], got 'tensor<4x2xf32>'}}
  %r = autopar.dot_general %0, %1 contract [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<4x2xf32>
  return
}

// -----

func.func @f(%0: tensor<1x2xf32>, %1: tensor<2x2xf32>) {
  // expected-error @+1 {{'autopar.convolution' op expects input, filter and result of one rank of at least 3}}
  %r = autopar.convolution %0, %1 {strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  return
}

// -----

func.func @f(%0: tensor<1x2x4x4xf32>, %1: tensor<3x2x2x2xf32>) {
  // expected-error @+1 {{'autopar.convolution' op expects 2 entries per spatial attribute, got 1}}
  %r = autopar.convolution %0, %1 {strides = array<i64: 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x2x4x4xf32>, tensor<3x2x2x2xf32>) -> tensor<1x3x3x3xf32>
  return
}

// -----

func.func @f(%0: tensor<1x2x4x4xf32>, %1: tensor<3x3x2x2xf32>) {
  // expected-error @+1 {{'autopar.convolution' op channels do not fit: input 2, filter 3 x 1 groups, 3 out channels}}
  %r = autopar.convolution %0, %1 {strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x2x4x4xf32>, tensor<3x3x2x2xf32>) -> tensor<1x3x3x3xf32>
  return
}

// -----

func.func @f(%0: tensor<1x2x4x4xf32>, %1: tensor<3x2x2x2xf32>) {
  // expected-error @+1 {{'autopar.convolution' op batch or out channels of the result do not fit}}
  %r = autopar.convolution %0, %1 {strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x2x4x4xf32>, tensor<3x2x2x2xf32>) -> tensor<1x2x3x3xf32>
  return
}

// -----

func.func @f(%0: tensor<1x2x4x4xf32>, %1: tensor<3x2x2x2xf32>) {
  // expected-error @+1 {{'autopar.convolution' op expects positive strides and dilations}}
  %r = autopar.convolution %0, %1 {strides = array<i64: 0, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x2x4x4xf32>, tensor<3x2x2x2xf32>) -> tensor<1x3x3x3xf32>
  return
}

// -----

func.func @f(%0: tensor<1x2x4x4xf32>, %1: tensor<3x2x2x2xf32>) {
  // expected-error @+1 {{'autopar.convolution' op spatial dimension 1 of the result should be 3, got 4}}
  %r = autopar.convolution %0, %1 {strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x2x4x4xf32>, tensor<3x2x2x2xf32>) -> tensor<1x3x3x4xf32>
  return
}

// -----

func.func @f(%0: tensor<1x3x3x4xf32>, %1: tensor<3x2x2x2xf32>) {
  // expected-error @+1 {{'autopar.convolution_input_grad' op spatial dimension 1 of the result should be 3, got 4}}
  %r = autopar.convolution_input_grad %0, %1 {strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x3x3x4xf32>, tensor<3x2x2x2xf32>) -> tensor<1x2x4x4xf32>
  return
}

// -----

func.func @f(%0: tensor<1x2x4x4xf32>, %1: tensor<1x3x3x3xf32>) {
  // expected-error @+1 {{'autopar.convolution_filter_grad' op channels do not fit: input 2, filter 3 x 1 groups, 3 out channels}}
  %r = autopar.convolution_filter_grad %0, %1 {strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x2x4x4xf32>, tensor<1x3x3x3xf32>) -> tensor<3x3x2x2xf32>
  return
}

// -----

func.func @f(%0: tensor<2x3xf32>, %1: tensor<3x4xf32>) {
  // expected-error @+1 {{'autopar.dot_general' op expects as many contracted dimensions on both sides, got 1 and 2}}
  %r = autopar.dot_general %0, %1 contract [1] x [0, 1] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @f(%0: tensor<2x3xf32>, %1: tensor<3x4xf32>) {
  // expected-error @+1 {{'autopar.dot_general' op contracted dimensions 2 x 0 are out of range}}
  %r = autopar.dot_general %0, %1 contract [2] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @f(%0: tensor<4x130xbf16>) {
  // expected-error @+1 {{'autopar.mark_positive' op expects a mask 'tensor<4x32xi8>' of 'tensor<4x130xbf16>', got 'tensor<4x17xi8>'}}
  %r = autopar.mark_positive %0 : tensor<4x130xbf16> -> tensor<4x17xi8>
  return
}

// -----

func.func @f(%0: tensor<4x8xi32>, %1: tensor<4x16xi8>) {
  // expected-error @+1 {{'autopar.keep_marked' op expects rows of floats, got 'tensor<4x8xi32>'}}
  %r = autopar.keep_marked %0 where %1 : tensor<4x8xi32>, tensor<4x16xi8>
  return
}

// -----

func.func @f(%x: tensor<6x4xf32>, %w: tensor<2x4x3xf32>, %g: tensor<5xi64>) {
  // expected-error @+1 {{'autopar.grouped_dot' op expects a group for each row of lhs, got 'tensor<5xi64>' for 'tensor<6x4xf32>'}}
  %r = autopar.grouped_dot %x, %w, %g : (tensor<6x4xf32>, tensor<2x4x3xf32>, tensor<5xi64>) -> tensor<6x3xf32>
  return
}

// -----

func.func @f(%x: tensor<6x4xf32>, %w: tensor<2x3x4xf32>, %g: tensor<6xi64>) {
  // expected-error @+1 {{'autopar.grouped_dot' op expects rhs to be a matrix for each group with 4 rows, got 'tensor<2x3x4xf32>'}}
  %r = autopar.grouped_dot %x, %w, %g : (tensor<6x4xf32>, tensor<2x3x4xf32>, tensor<6xi64>) -> tensor<6x3xf32>
  return
}

// -----

func.func @f(%x: tensor<6x4xf32>, %w: tensor<2x4x3xf32>, %g: tensor<6xi64>) {
  // expected-error @+1 {{'autopar.grouped_dot' op expects rhs to be a matrix for each group with 4 columns, got 'tensor<2x4x3xf32>'}}
  %r = autopar.grouped_dot %x, %w, %g transposed : (tensor<6x4xf32>, tensor<2x4x3xf32>, tensor<6xi64>) -> tensor<6x3xf32>
  return
}

// -----

func.func @f(%x: tensor<6x4xf32>, %w: tensor<2x4x3xf32>, %g: tensor<6xi64>) {
  // expected-error @+1 {{'autopar.grouped_dot' op expects result shape [6, 3], got 'tensor<6x2xf32>'}}
  %r = autopar.grouped_dot %x, %w, %g : (tensor<6x4xf32>, tensor<2x4x3xf32>, tensor<6xi64>) -> tensor<6x2xf32>
  return
}

// -----

func.func @f(%x: tensor<6x4xf32>, %w: tensor<2x4x3xbf16>, %g: tensor<6xi64>) {
  // expected-error @+1 {{'autopar.grouped_dot' op expects floats of one type, got 'f32' and 'bf16' for a result of 'f32'}}
  %r = autopar.grouped_dot %x, %w, %g : (tensor<6x4xf32>, tensor<2x4x3xbf16>, tensor<6xi64>) -> tensor<6x3xf32>
  return
}

// -----

func.func @f(%x: tensor<6x4xf32>, %y: tensor<5x3xf32>, %g: tensor<6xi64>) {
  // expected-error @+1 {{'autopar.grouped_dot_rhs_grad' op expects a group for each row of gradient, got 'tensor<6xi64>' for 'tensor<5x3xf32>'}}
  %r = autopar.grouped_dot_rhs_grad %x, %y, %g : (tensor<6x4xf32>, tensor<5x3xf32>, tensor<6xi64>) -> tensor<2x4x3xf32>
  return
}

// -----

func.func @f(%x: tensor<6x4xf32>, %y: tensor<6x3xf32>, %g: tensor<6xi64>) {
  // expected-error @+1 {{'autopar.grouped_dot_rhs_grad' op expects a result [groups, 4, 3], got 'tensor<2x3x4xf32>'}}
  %r = autopar.grouped_dot_rhs_grad %x, %y, %g : (tensor<6x4xf32>, tensor<6x3xf32>, tensor<6xi64>) -> tensor<2x3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<2x6x4xf32>, %w: tensor<4x4x3xf32>, %g: tensor<2x6xi64>) {
  // expected-error @+1 {{'autopar.grouped_dot' op expects a group for each row of lhs in each part, got 'tensor<2x6xi64>' for 'tensor<2x6x4xf32>'}}
  %r = autopar.grouped_dot %x, %w, %g in_parts : (tensor<2x6x4xf32>, tensor<4x4x3xf32>, tensor<2x6xi64>) -> tensor<2x6x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x6x4xf32>, %w: tensor<3x4x3xf32>, %g: tensor<6xi64>) {
  // expected-error @+1 {{'autopar.grouped_dot' op expects parts of as many groups each, got 2 parts of 3 groups}}
  %r = autopar.grouped_dot %x, %w, %g in_parts : (tensor<2x6x4xf32>, tensor<3x4x3xf32>, tensor<6xi64>) -> tensor<2x6x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x6x4xf32>, %y: tensor<1x6x3xf32>, %g: tensor<6xi64>) {
  // expected-error @+1 {{'autopar.grouped_dot_rhs_grad' op expects as many parts of lhs as of gradient, got 'tensor<2x6x4xf32>' and 'tensor<1x6x3xf32>'}}
  %r = autopar.grouped_dot_rhs_grad %x, %y, %g in_parts : (tensor<2x6x4xf32>, tensor<1x6x3xf32>, tensor<6xi64>) -> tensor<4x4x3xf32>
  return
}
