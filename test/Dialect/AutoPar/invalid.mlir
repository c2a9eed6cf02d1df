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

func.func @attention_parts(%q: tensor<1x2x2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{expects the shard of a triangle's rows to be an i64 scalar and the rows of all parts no more than the 2 columns, got 2 parts of 2 rows}}
  %o, %l = autopar.attention %q, %q, %q scale 1.0 causal shard %i of 2 : (tensor<1x2x2x8xf32>, tensor<1x2x2x8xf32>, tensor<1x2x2x8xf32>, tensor<i64>) -> (tensor<1x2x2x8xf32>, tensor<1x2x2xf32>)
  return
}

// -----

func.func @attention_window(%q: tensor<1x2x2x8xf32>) {
  // expected-error @+1 {{expects a window of at least one column, of a causal mask, got 2 without one}}
  %o, %l = autopar.attention %q, %q, %q scale 1.0 window 2 : (tensor<1x2x2x8xf32>, tensor<1x2x2x8xf32>, tensor<1x2x2x8xf32>) -> (tensor<1x2x2x8xf32>, tensor<1x2x2xf32>)
  return
}

// -----

func.func @attention_no_window(%q: tensor<1x2x2x8xf32>) {
  // expected-error @+1 {{expects a window of at least one column, of a causal mask, got 0}}
  %o, %l = autopar.attention %q, %q, %q scale 1.0 causal window 0 : (tensor<1x2x2x8xf32>, tensor<1x2x2x8xf32>, tensor<1x2x2x8xf32>) -> (tensor<1x2x2x8xf32>, tensor<1x2x2xf32>)
  return
}

// -----

func.func @attention_sink(%q: tensor<1x2x2x8xf32>, %s: tensor<3xf32>) {
  // expected-error @+1 {{expects a sink of one float per head [2], got 'tensor<3xf32>'}}
  %o, %l = autopar.attention %q, %q, %q sink %s scale 1.0 : (tensor<1x2x2x8xf32>, tensor<1x2x2x8xf32>, tensor<1x2x2x8xf32>, tensor<3xf32>) -> (tensor<1x2x2x8xf32>, tensor<1x2x2xf32>)
  return
}

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

// -----

autopar.formula @f {
// expected-error @-1 {{'autopar.formula' op expects arguments of rank 0}}
^bb0(%w: tensor<4xf32>):
  autopar.yield %w : tensor<4xf32>
}

// -----

autopar.formula @f {
^bb0(%w: tensor<f32>):
  // expected-error @+1 {{'autopar.broadcast' op stands in a formula and is not elementwise}}
  %0 = autopar.broadcast %w dims [] : tensor<f32> -> tensor<4xf32>
  autopar.yield %w : tensor<f32>
}

// -----

autopar.formula @f {
^bb0(%w: tensor<f32>):
  // expected-error @+1 {{'autopar.constant' op stands in a formula and is not of rank 0}}
  %0 = autopar.constant dense<1.0> : tensor<4xf32>
  autopar.yield %w : tensor<f32>
}

// -----

func.func @f(%w: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'autopar.update' op follows @f, which is no formula}}
  %0 = autopar.update @f %w : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

autopar.formula @keep {
^bb0(%w: tensor<f32>, %g: tensor<f32>):
  autopar.yield %w : tensor<f32>
}
func.func @f(%w: tensor<4xf32>, %g: tensor<4xf64>) -> tensor<4xf32> {
  // expected-error @+1 {{'autopar.update' op expects the element types of @keep, ('tensor<f32>', 'tensor<f32>') -> ('tensor<f32>')}}
  %0 = autopar.update @keep %w, %g : (tensor<4xf32>, tensor<4xf64>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @f(%w: tensor<4xf32>, %g: tensor<5xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'autopar.update' op expects operands of the parameter's shape or of rank 0, got 'tensor<5xf32>' beside 'tensor<4xf32>'}}
  %0 = autopar.update @keep %w, %g : (tensor<4xf32>, tensor<5xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @f(%w: tensor<4xf32>) -> tensor<5xf32> {
  // expected-error @+1 {{'autopar.update' op expects results of the parameter's shape, got 'tensor<5xf32>' for 'tensor<4xf32>'}}
  %0 = autopar.update @keep %w : (tensor<4xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}

// -----

func.func @f() -> tensor<5xf32> {
  // expected-error @+1 {{'autopar.update' op expects at least a parameter and its next value}}
  %0 = "autopar.update"() {formula = @keep} : () -> tensor<5xf32>
  return %0 : tensor<5xf32>
}

// -----

func.func @parts_of_blocks(%x: tensor<2x48xf32>, %w: tensor<48x5xf32>) -> tensor<2x5xf32> {
  // expected-error @+1 {{expects floats in whole blocks of 32 along one contracted dimension, got 'tensor<2x48xf32>'}}
  %0 = autopar.dot_general %x, %w contract [1] x [0] byte_blocks 32 : (tensor<2x48xf32>, tensor<48x5xf32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}

// -----

func.func @scaled_to_a_wide_type(%x: tensor<2x4xbf16>, %w: tensor<4x5xbf16>) -> tensor<2x5xbf16> {
  // expected-error @+1 {{'autopar.dot_general' op expects floats that are scaled to f8E4M3FN, got 'tensor<2x4xbf16>' and 'tensor<4x5xbf16>' scaled to 'f16'}}
  %0 = autopar.dot_general %x, %w contract [1] x [0] scaled_to f16 : (tensor<2x4xbf16>, tensor<4x5xbf16>) -> tensor<2x5xbf16>
  return %0 : tensor<2x5xbf16>
}
