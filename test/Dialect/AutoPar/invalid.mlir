// RUN: autopar-opt %s --split-input-file --verify-diagnostics

func.func @f(%x: tensor<2x3xi32>) -> tensor<2x3xi32> {
  // expected-error @+1 {{'autopar.unary' op expects floats, got 'i32'}}
  %0 = autopar.unary exp %x : tensor<2x3xi32>
  return %0 : tensor<2x3xi32>
}

// -----

func.func @f(%x: tensor<2x3xf32>, %w: tensor<4x5xf32>) -> tensor<2x5xf32> {
  // expected-error @+1 {{'autopar.dot_general' op contracted dimensions differ: 3 and 4}}
  %0 = autopar.dot_general %x, %w contract [1] x [0] : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}

// -----

func.func @f(%x: tensor<2x3xf32>) -> tensor<7xf32> {
  // expected-error @+1 {{'autopar.reshape' op expects as many elements, got 'tensor<2x3xf32>' and 'tensor<7xf32>'}}
  %0 = autopar.reshape %x : tensor<2x3xf32> -> tensor<7xf32>
  return %0 : tensor<7xf32>
}

// -----

func.func @f(%x: tensor<2x3xf32>) -> tensor<2x4xf32> {
  // expected-error @+1 {{'autopar.slice' op positions 0 to 3 leave dimension 1 of extent 3}}
  %0 = autopar.slice %x starts [0, 0] steps [1, 1] : tensor<2x3xf32> -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

// expected-error @+1 {{axis "t" appears more than once in a sharding}}
func.func @f(%x: tensor<4x4xf32> {autopar.sharding = #autopar.sharding<@m, [{"t"}, {"t"}]>}) {
  return
}

// -----

// expected-error @+1 {{argument 0: sharding of 1 dimensions on a tensor of 2}}
func.func @f(%x: tensor<4x4xf32> {autopar.sharding = #autopar.sharding<@m, [{"t"}]>}) {
  return
}

// -----

// expected-error @+1 {{'autopar.mesh' op axis "t" is declared twice}}
autopar.mesh @m ["t" = 2, "t" = 2]

// -----

func.func @attention_groups(%q: tensor<2x4x3x8xf32>, %k: tensor<2x3x5x8xf32>, %v: tensor<2x3x5x6xf32>) {
  // expected-error @+1 {{expects query [batch, heads, rows, d], key [batch, groups, columns, d] and value [batch, groups, columns, dv] with groups that divide heads}}
  %o, %l = autopar.attention %q, %k, %v scale 1.0 : (tensor<2x4x3x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5x6xf32>) -> (tensor<2x4x3x6xf32>, tensor<2x4x3xf32>)
  return
}

// -----

func.func @attention_types(%q: tensor<2x4x3x8xf32>, %k: tensor<2x2x5x8xf32>, %v: tensor<2x2x5x6xbf16>) {
  // expected-error @+1 {{expects query, key and value of one float type, got 'f32', 'f32' and 'bf16'}}
  %o, %l = autopar.attention %q, %k, %v scale 1.0 : (tensor<2x4x3x8xf32>, tensor<2x2x5x8xf32>, tensor<2x2x5x6xbf16>) -> (tensor<2x4x3x6xf32>, tensor<2x4x3xf32>)
  return
}

// -----

func.func @attention_output(%q: tensor<2x4x3x8xf32>, %k: tensor<2x2x5x8xf32>, %v: tensor<2x2x5x6xf32>) {
  // expected-error @+1 {{expects an output [batch, heads, rows, dv] of 'f32'}}
  %o, %l = autopar.attention %q, %k, %v scale 1.0 : (tensor<2x4x3x8xf32>, tensor<2x2x5x8xf32>, tensor<2x2x5x6xf32>) -> (tensor<2x4x3x7xf32>, tensor<2x4x3xf32>)
  return
}

// -----

func.func @attention_bias(%q: tensor<2x4x3x8xf32>, %k: tensor<2x2x5x8xf32>, %v: tensor<2x2x5x6xf32>, %b: tensor<2x1x1x1xf32>) {
  // expected-error @+1 {{expects a bias that repeats to [2, 4, 3, 5]}}
  %o, %l = autopar.attention %q, %k, %v bias %b scale 1.0 : (tensor<2x4x3x8xf32>, tensor<2x2x5x8xf32>, tensor<2x2x5x6xf32>, tensor<2x1x1x1xf32>) -> (tensor<2x4x3x6xf32>, tensor<2x4x3xf32>)
  return
}

// -----

func.func @attention_sums(%q: tensor<2x4x3x8xbf16>) {
  // expected-error @+1 {{expects row sums [batch, heads, rows] of 'f32'}}
  %o, %l = autopar.attention %q, %q, %q scale 1.0 : (tensor<2x4x3x8xbf16>, tensor<2x4x3x8xbf16>, tensor<2x4x3x8xbf16>) -> (tensor<2x4x3x8xbf16>, tensor<2x4x3xbf16>)
  return
}

// -----

func.func @attention_grad_results(%q: tensor<2x4x3x8xf32>, %l: tensor<2x4x3xf32>) {
  // expected-error @+1 {{expects results of the types of query, key and value}}
  %dq, %dk, %dv = autopar.attention_grad %q, %q, %q, %q, %l, %q scale 1.0
      : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3xf32>, tensor<2x4x3x8xf32>) -> (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3x9xf32>)
  return
}

// -----

func.func @attention_grad_gradient(%q: tensor<2x4x3x8xf32>, %l: tensor<2x4x3xf32>, %g: tensor<2x4x3x9xf32>) {
  // expected-error @+1 {{expects a gradient of type 'tensor<2x4x3x8xf32>'}}
  %dq, %dk, %dv = autopar.attention_grad %q, %q, %q, %q, %l, %g scale 1.0
      : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3xf32>, tensor<2x4x3x9xf32>) -> (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>)
  return
}
