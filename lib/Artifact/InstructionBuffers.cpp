// SPDX-License-Identifier: Apache-2.0
#include "autopar/Artifact/InstructionBuffers.h"

namespace autopar::artifact {
namespace {

struct BufferCollector {
  InstructionBuffers buffers;

  void reads(std::initializer_list<int32_t> all) { add(buffers.read, all); }
  void writes(std::initializer_list<int32_t> all) { add(buffers.written, all); }
  static void add(std::vector<int32_t> &list, std::initializer_list<int32_t> all) {
    for (int32_t buffer : all)
      if (buffer >= 0)
        list.push_back(buffer);
  }

  void operator()(const Launch &p) {
    auto written = p.args.end() - p.outputs;
    buffers.read.assign(p.args.begin(), written);
    buffers.written.assign(written, p.args.end());
  }
  void operator()(const Matmul &p) {
    reads({p.a, p.b, p.bias, p.residual});
    writes({p.c, p.scratch, p.aux});
  }
  void operator()(const Convolution &p) {
    reads({p.x, p.w, p.bias, p.residual});
    writes({p.y, p.scratch});
  }
  void operator()(const Attention &p) {
    buffers = {p.inputs, p.outputs};
    writes({p.scratch});
  }
  void operator()(const GroupedProduct &p) {
    reads({p.lhs, p.rhs, p.group});
    if (p.maker)
      buffers.read.insert(buffers.read.end(), p.maker->inputs.begin(), p.maker->inputs.end());
    writes({p.result, p.scratch});
  }
  void operator()(const Pack &p) { move(p.src, p.dst); }
  void operator()(const Reorder &p) { move(p.src, p.dst); }
  void operator()(const Copy &p) { move(p.src, p.dst); }
  void operator()(const Collective &p) { move(p.input, p.output); }
  void operator()(const Permute &p) { move(p.input, p.output); }
  void operator()(const Send &p) { reads({p.buffer}); }
  void operator()(const Recv &p) { writes({p.buffer}); }
  void operator()(const Read &p) { writes({p.dst}); }
  void move(int32_t from, int32_t to) {
    reads({from});
    writes({to});
  }
};

} // namespace

InstructionBuffers buffersOf(const Payload &payload) {
  BufferCollector collector;
  std::visit(collector, payload);
  return std::move(collector.buffers);
}

} // namespace autopar::artifact
