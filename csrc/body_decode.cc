// SPDX-License-Identifier: Apache-2.0
// The statement tree of a Program: decoding, and the rules of its structure.
#include <cstring>

#include "decode.h"
#include "instruction.h"

namespace mco {

namespace {

constexpr int kMaxNesting = 200;

struct Context {
  Reader& in;
  const Strings& strings;
  Program& p;
  StreamWriter& out;
};

void check_loc(const Context& c, uint32_t loc) {
  if (loc >= c.p.locations.size())
    fail("program bytes: location number %u; the table has %zu", loc, c.p.locations.size());
}

uint32_t read_register(const Context& c) {
  const uint32_t index = c.in.take<uint32_t>();
  if (index >= c.p.registers.size())
    fail("program bytes: register number %u; the table has %zu", index, c.p.registers.size());
  return index;
}

void read_instr(const Context& c, uint32_t loc) {
  const std::string& name = c.in.string(c.strings);
  const OpInfo* op = find_op(name);
  const unsigned tensors = c.in.take<uint8_t>(), args = c.in.take<uint8_t>(), attrs = c.in.take<uint8_t>();
  c.in.take<uint8_t>();
  check_counts(c.p, name, op, tensors, args, attrs, loc);
  Chunks& memory = c.p.stream.memory;
  Instr& instr = *memory.make<Instr>(1);
  instr.op = op;
  instr.loc = loc;
  instr.tensors = {memory.make<Operand>(tensors), tensors};
  instr.args = {memory.make<uint32_t>(args), args};
  instr.attrs = {memory.make<int64_t>(attrs), attrs};
  for (Operand& o : instr.tensors) o = read_operand(c.in, c.p);
  for (uint32_t& arg : instr.args) arg = read_root(c.p, c.in.take<uint32_t>());
  for (int64_t& attr : instr.attrs) attr = c.in.take<int64_t>();
  check_instr(c.p, instr, &memory);
  Step& s = c.out.add(kind_of(name), loc);
  s.instr = &instr;
  c.p.stream.has_barrier = c.p.stream.has_barrier || s.what == What::Barrier;
}

void read_statements(const Context& c, int depth);

void read_for(const Context& c, uint32_t loc, int depth) {
  const uint32_t reg = read_register(c);
  const uint32_t from = read_root(c.p, c.in.take<uint32_t>()), to = read_root(c.p, c.in.take<uint32_t>());
  if (is_float(c.p.exprs.dtype(from)) || is_float(c.p.exprs.dtype(to))) {
    fail("for: a bound is a float; accepted: integers [%s]", c.p.location(loc).c_str());
  }
  const bool blocks = c.in.take<uint8_t>() != 0;
  c.in.take<uint8_t>();  // threads: double buffering matters to the timing only
  // It may lie in other loops and branches: every block walks them.
  if (blocks && c.p.stream.blocks != kNone) {
    fail("for: a second multi-core loop; accepted: one [%s]", c.p.location(loc).c_str());
  }
  const What what = blocks ? What::Blocks : What::Begin;
  const uint32_t begin = c.out.begin_loop(what, loc, reg, c.p.registers[reg].dtype, from, to);
  read_statements(c, depth + 1);
  c.out.end_loop(begin);
}

void read_if(const Context& c, uint32_t loc, int depth) {
  const uint32_t root = read_root(c.p, c.in.take<uint32_t>());
  const uint32_t test = c.out.begin_if(loc, root, c.p.exprs.dtype(root));
  read_statements(c, depth + 1);
  const uint32_t otherwise = c.out.begin_else(test);
  read_statements(c, depth + 1);
  c.out.end_if(test, otherwise);
}

const Operand* keep(const Context& c, const Operand& o) { return &(*c.p.stream.memory.make<Operand>(1) = o); }

void read_scalar(const Context& c, What what, uint32_t loc) {
  Step s;
  s.what = what;
  s.loc = loc;
  if (what != What::Store) {
    s.index = read_register(c);
    s.to = c.p.registers[s.index].dtype;
  }
  if (what != What::Assign) s.place = keep(c, read_operand(c.in, c.p));
  if (what != What::Load) {
    s.a = read_root(c.p, c.in.take<uint32_t>());
    s.from = c.p.exprs.dtype(s.a);
  }
  c.out.add(what, loc) = s;
}

void read_jump(const Context& c, uint32_t loc) {
  const uint8_t kind = c.in.take<uint8_t>();
  if (kind > 2) fail("program bytes: jump kind %u; accepted: 0 to 2", kind);
  if (kind == 2) {
    c.out.add(What::End, loc);
    return;
  }
  if (!c.out.in_loop()) {
    fail("%s: outside of a loop [%s]", kind == 0 ? "break" : "continue", c.p.location(loc).c_str());
  }
  kind == 0 ? c.out.leave_loop(loc) : c.out.next_round(loc);
}

void read_alloc(const Context& c, uint32_t loc) {
  const uint32_t buffer = c.in.take<uint32_t>();
  if (buffer >= c.p.buffers.size())
    fail("program bytes: buffer number %u; the table has %zu", buffer, c.p.buffers.size());
  c.out.add(What::Alloc, loc).index = buffer;
}

void read_statement(const Context& c, int depth) {
  const uint8_t kind = c.in.take<uint8_t>();
  const uint32_t loc = c.in.take<uint32_t>();
  check_loc(c, loc);
  switch (kind) {
    case 0:
      return read_instr(c, loc);
    case 1:
      return read_for(c, loc, depth);
    case 2:
      return read_if(c, loc, depth);
    case 3:
      return read_scalar(c, What::Assign, loc);
    case 4:
      return read_scalar(c, What::Load, loc);
    case 5:
      return read_scalar(c, What::Store, loc);
    case 6:
      return read_alloc(c, loc);
    case 7:
      return read_jump(c, loc);
    default:
      fail("program bytes: unknown statement kind %u with %zu bytes left", kind, c.in.left());
  }
}

void read_statements(const Context& c, int depth) {
  if (depth > kMaxNesting) fail("program bytes: statements nest deeper than %d", kMaxNesting);
  constexpr size_t kSmallest = 6;  // bytes of a jump
  const uint32_t n = c.in.count(kSmallest);
  for (uint32_t i = 0; i < n; ++i) read_statement(c, depth);
}

}  // namespace

void read_body(Reader& in, const Strings& strings, Program& p) {
  StreamWriter out(p.stream);
  read_statements(Context{in, strings, p, out}, 0);
  out.add(What::End, 0);
  p.stream.steps.shrink_to_fit();
}

}  // namespace mco
