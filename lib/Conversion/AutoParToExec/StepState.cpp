// SPDX-License-Identifier: Apache-2.0
// What lasts from one step to the next: donated arguments, whose buffers the step fills with their
// next values, and the words of the control buffer.
#include "ProgramBuilder.h"

#include "autopar/Artifact/Program.h"
#include "autopar/Transforms/InPlace.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::artifact::ControlWord;
using ::autopar::artifact::kControlWords;

// Words are not aligned as kernels expect their arguments, so each is copied to a place of its own.
LogicalResult ProgramBuilder::bindControl(BlockArgument argument, const Argument &info) {
  auto type = cast<RankedTensorType>(argument.getType());
  Builder attributes(function.getContext());
  struct Row {
    StringRef name;
    ControlWord word;
    Type element;
  };
  const Row rows[] = {{"step", ControlWord::Step, attributes.getI64Type()},
                      {"learning_rate", ControlWord::LearningRate, attributes.getF64Type()},
                      {"skipped_steps", ControlWord::SkippedSteps, attributes.getI64Type()},
                      {"evaluation", ControlWord::Evaluation, attributes.getI64Type()}};
  const Row *known = llvm::find_if(rows, [&](const Row &row) { return row.name == info.control; });
  if (known == std::end(rows))
    return function.emitOpError() << "argument \"" << info.name << "\": expected the control word "
                                  << "step, learning_rate, skipped_steps or evaluation, got \""
                                  << info.control << "\"";
  Type element = known->element;
  if (type != RankedTensorType::get({}, element))
    return function.emitOpError() << "argument \"" << info.name << "\": the control word \""
                                  << info.control << "\" is " << element << ", not " << type;
  if (!controlWords) {
    auto words = RankedTensorType::get({kControlWords}, attributes.getI64Type());
    controlWords = createBuffer("control", words);
    controlWords.getDefiningOp<exec::BufferOp>().setBinding(exec::Binding::Control);
    initialWords.assign(kControlWords, 0);
  }
  auto word = static_cast<int64_t>(known->word);
  if (auto initial =
          function.getArgAttrOfType<FloatAttr>(argument.getArgNumber(), "autopar.initial"))
    initialWords[word] = llvm::bit_cast<int64_t>(initial.getValueAsDouble());
  Value buffer = createBuffer(info.name, type);
  auto copy =
      exec::CopyOp::create(stepBuilder, argument.getLoc(), controlWords, word * 8, buffer, 0, 8);
  describe(copy, function, "copy", 0);
  copy.setId(info.name);
  setView(argument, {buffer, {}});
  return success();
}

int64_t ProgramBuilder::donorOf(unsigned result) {
  return donors[result] ? int64_t(donors[result].getArgNumber()) : -1;
}

LogicalResult ProgramBuilder::checkDonor(unsigned result) {
  unsigned donor = donorOf(result);
  if (function.getResultAttr(result, "autopar.sharding") ==
      function.getArgAttr(donor, "autopar.sharding"))
    return success();
  return function.emitOpError() << "result \"" << arguments[donor].name
                                << "\" is the next value of a donated argument and must have its "
                                   "sharding";
}

int64_t ProgramBuilder::operandToReplace(Operation *op, unsigned result) {
  return autopar::operandToReplace(
      op, result, [&](Value value) { return !views.contains(value) || isLoadTime(value); });
}

Value ProgramBuilder::bufferOfNextValue(OpResult result) {
  BlockArgument place = placeOfNextValue(result.getOwner(), result.getResultNumber(), donors);
  return place && !arguments[place.getArgNumber()].isOnHost ? arguments[place.getArgNumber()].buffer
                                                            : Value();
}

// At the end of the step the new values take the place of the old ones. A value that lies in the
// buffer of another donated argument is put aside first, since that buffer may be overwritten.
LogicalResult ProgramBuilder::lowerDonatedResults(func::ReturnOp op) {
  struct Move {
    Value from, to;
    int64_t bytes;
    std::string name;
  };
  SmallVector<Move> moves;
  llvm::DenseSet<Value> donated;
  for (const Argument &info : arguments)
    if (info.isDonated)
      donated.insert(info.buffer);
  llvm::StringSet<> returned;
  auto copy = [&](Value from, Value to, const Move &move) {
    auto instruction = exec::CopyOp::create(stepBuilder, op.getLoc(), from, 0, to, 0, move.bytes);
    describe(instruction, op, "copy", 0);
    instruction.setId(move.name);
  };
  for (unsigned number = 0; number < op.getNumOperands(); ++number) {
    if (donorOf(number) < 0)
      continue;
    if (failed(checkDonor(number)))
      return failure();
    const Argument &info = arguments[donorOf(number)];
    if (!returned.insert(info.name).second)
      return function.emitOpError() << "returns \"" << info.name << "\" twice";
    FailureOr<Value> buffer = rowMajorBuffer(op.getOperand(number));
    if (failed(buffer))
      return failure();
    auto type = cast<RankedTensorType>(op.getOperand(number).getType());
    Move move{*buffer, info.buffer, exec::tensorBytes(type), info.name};
    if (move.from == move.to || move.bytes == 0)
      continue;
    if (donated.contains(exec::rootOf(move.from).first.getResult())) {
      Value aside = createBuffer(info.name + ".next", type);
      copy(move.from, aside, move);
      move.from = aside;
    }
    moves.push_back(move);
  }
  for (const Argument &info : arguments)
    if (info.isDonated && !returned.contains(info.name))
      return function.emitOpError()
             << "donates \"" << info.name << "\" and returns no result of that name";
  for (const Move &move : moves)
    copy(move.from, move.to, move);
  return success();
}
