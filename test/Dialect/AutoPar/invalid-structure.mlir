// RUN: autopar-opt %s --split-input-file --verify-diagnostics

// What meshes, shardings, groups, collectives and micro-batches must not be.

func.func @f(%0: tensor<4x2xf32>) {
  // expected-error @+1 {{'autopar.micro_batch' op expects 'tensor<4x2xf32>' to be several of 'tensor<3xf32>'}}
  %r = autopar.micro_batch %0 : tensor<4x2xf32> -> tensor<3xf32>
  return
}

// -----

func.func @f(%0: tensor<4x2xf32>) {
  // expected-error @+1 {{'autopar.all_gather' op expects one rank and element type, got 'tensor<4x2xf32>' and 'tensor<8xf32>'}}
  %r = autopar.all_gather %0 dim 0 over @m ["t"] : tensor<4x2xf32> -> tensor<8xf32>
  return
}

// -----

func.func @f(%0: tensor<4x2xf32>) {
  // expected-error @+1 {{'autopar.all_gather' op dimension 2 is out of range for 'tensor<4x2xf32>'}}
  %r = autopar.all_gather %0 dim 2 over @m ["t"] : tensor<4x2xf32> -> tensor<8x2xf32>
  return
}

// -----

func.func @f(%0: tensor<4x2xf32>) {
  // expected-error @+1 {{'autopar.all_gather' op dimension 1 must not change}}
  %r = autopar.all_gather %0 dim 0 over @m ["t"] : tensor<4x2xf32> -> tensor<8x4xf32>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'autopar.fence' op expects at least one value}}
  "autopar.fence"() {operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

func.func @f(%0: tensor<4xf32>) {
  // expected-error @+1 {{'autopar.fence' op expects results of the types of the inputs, ('tensor<4xf32>'), got ('tensor<5xf32>')}}
  %r = autopar.fence %0 : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @f(%0: tensor<4xf32>) {
  // expected-error @+1 {{'autopar.group' op expects block arguments of the operands' types}}
  %r = autopar.group %0 : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<5xf32>):
    autopar.yield %a : tensor<5xf32>
  }
  return
}

// -----

func.func @f(%0: tensor<4xf32>) {
  // expected-error @+1 {{'autopar.group' op expects to yield values of the result types}}
  %r = autopar.group %0 : (tensor<4xf32>) -> tensor<5xf32> {
  ^bb0(%a: tensor<4xf32>):
    autopar.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @f(%0: tensor<4xf32>) {
  // expected-error @+1 {{'autopar.unary' op expected 'autopar.strategy' to be a #autopar.strategy}}
  %r = autopar.unary exp %0 {autopar.strategy = 1 : i64} : tensor<4xf32>
  return
}

// -----

func.func @f(%0: tensor<4xf32>) {
  // expected-error @+1 {{'autopar.unary' op expected 'autopar.id' to be a string}}
  %r = autopar.unary exp %0 {autopar.id = 1 : i64} : tensor<4xf32>
  return
}

// -----

// expected-error @+1 {{'autopar.mesh' op expects one size per axis}}
"autopar.mesh"() {sym_name = "m", axes = ["t", "d"], sizes = array<i64: 2>} : () -> ()

// -----

// expected-error @+1 {{'autopar.mesh' op expects positive axis sizes}}
autopar.mesh @m ["t" = 0]

// -----

// expected-error @+1 {{'autopar.mesh' op expects 2 devices, got 1}}
"autopar.mesh"() {sym_name = "m", axes = ["t"], sizes = array<i64: 2>, devices = array<i64: 0>} : () -> ()

// -----

// expected-error @+1 {{expected sum, prod, max, min, and or or}}
func.func @f(%0: tensor<4x4xf32> {autopar.sharding = #autopar.sharding<@m, [{"t"}, {}], partial = {"d"} mean>}) {
  return
}

// -----

// expected-error @+1 {{argument 0: expected 'autopar.sharding' to be a #autopar.sharding of a tensor}}
func.func @f(%0: tensor<4x4xf32> {autopar.sharding = "t"}) {
  return
}

// -----

// expected-error @+1 {{'func.func' op has a strategy but no sharding rule}}
func.func @f() attributes {autopar.strategy = #autopar.strategy<@m, [{}]>} {
  return
}

// -----

func.func @f(%0: tensor<4xf32>) {
  // expected-error @+1 {{'autopar.group' op expects to end with autopar.yield}}
  %r = "autopar.group"(%0) ({
  ^bb0(%a: tensor<4xf32>):
    %1 = autopar.unary exp %a : tensor<4xf32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-error @+1 {{'autopar.mesh' op expects at most 262144 ranks}}
autopar.mesh @m ["a" = 2147483648]

// -----

// expected-error @+1 {{'autopar.mesh' op expects at most 262144 ranks}}
autopar.mesh @m ["a" = 4294967296, "b" = 4294967296]

// -----

// expected-error @+1 {{expected 'autopar.stage_devices' to be the devices of each mesh, such as [array<i64: 0, 1>, array<i64: 2>], got []}}
func.func @f() attributes {autopar.stage_devices = []} {
  return
}

// -----

// expected-error @+1 {{expected 'autopar.stage_devices' to be the devices of each mesh, such as [array<i64: 0, 1>, array<i64: 2>], got [1]}}
func.func @f() attributes {autopar.stage_devices = [1]} {
  return
}

// -----

// expected-error @+1 {{expected 'autopar.stage_meshes' to be a positive i64, got 0 : i64}}
func.func @f() attributes {autopar.stage_meshes = 0 : i64} {
  return
}

// -----

// expected-error @+1 {{'autopar.mesh' op expects names of axes in UTF-8, got "t\FF"}}
autopar.mesh @m ["t\FF" = 2]

// -----

// expected-error @+1 {{'func.func' op expected 'autopar.name' to be UTF-8, got "x\FF"}}
func.func @f(%0: tensor<4xf32> {autopar.name = "x\FF"}) {
  return
}

// -----

func.func @f(%0: tensor<4xf32>) {
  // expected-error @+1 {{'autopar.unary' op expected 'autopar.id' to be UTF-8, got "\C3("}}
  %r = autopar.unary exp %0 {autopar.id = "\C3("} : tensor<4xf32>
  return
}

// -----

func.func @f(%0: tensor<4xf32>) {
  // expected-error @+1 {{'autopar.carry' op attribute 'number' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative whose maximum value is 2147483647}}
  %r = autopar.carry 9223372036854775807 %0 : tensor<4xf32>
  return
}

// -----

// expected-error @+1 {{'func.func' op argument 0: sharding of 2 dimensions on a tensor of 1}}
func.func private @declared(tensor<4xf32> {autopar.sharding = #autopar.sharding<@m, [{}, {}]>})

// -----

func.func @f(%0: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'autopar.store_on_host' op lies in host memory, where only 'autopar.fetch_from_host' reads it, got 'func.return'}}
  %h = autopar.store_on_host %0 : tensor<4xf32>
  return %h : tensor<4xf32>
}

// -----

func.func @f(%0: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'autopar.fetch_from_host' op expects the result of 'autopar.store_on_host'}}
  %y = autopar.fetch_from_host %0 : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// expected-error @+1 {{'func.func' op expected 'autopar.stage' to be an i64 from 0 to 65535, got -1 : i64}}
func.func @f(%0: tensor<4xf32> {autopar.stage = -1 : i64}) {
  return
}

// -----

func.func @f(%0: tensor<4xf32>) {
  // expected-error @+1 {{'autopar.transfer' op goes to stage -1; expected 0 to 65535}}
  %r = autopar.transfer %0 to -1 : tensor<4xf32>
  return
}
