/**
 * The syntax tree of a module, including decorators and `accessor` in classes: V8 and acorn don't know them yet, but Deno
 * turns them into JavaScript when it loads TypeScript.
 */
import { Parser, TokenType, tokTypes } from "./vendor/acorn.mjs";

const OPTIONS = {
  ecmaVersion: "latest",
  sourceType: "module",
  allowReturnOutsideFunction: true,
  allowAwaitOutsideFunction: true,
  preserveParens: true,
};
const AT_SIGN = 64;
const at = new TokenType("@", { beforeExpr: true });

/** Parses decorators of classes and their elements, and notes where each `accessor` without a decorator begins. */
class DecoratorParser extends Parser {
  bareAccessors = [];

  getTokenFromCode(code) {
    if (code !== AT_SIGN) return super.getTokenFromCode(code);
    this.pos++;
    return this.finishToken(at);
  }

  /** Read past decorators; tells whether there were any. */
  skipDecorators() {
    const start = this.start;
    while (this.eat(at)) {
      if (this.type === tokTypes.parenL) {
        this.parseParenAndDistinguishExpression(false);
        continue;
      }
      this.parseIdent(true);
      while (this.eat(tokTypes.dot)) this.type === tokTypes.privateId ? this.parsePrivateIdent() : this.parseIdent(true);
      if (this.eat(tokTypes.parenL)) this.parseExprList(tokTypes.parenR, true, false);
    }
    return this.start !== start;
  }

  parseStatement(context, topLevel, exported) {
    const { start, startLoc } = this;
    if (this.type !== at) return super.parseStatement(context, topLevel, exported);
    this.skipDecorators();
    if (this.type !== tokTypes._class && this.type !== tokTypes._export) this.unexpected();
    return Object.assign(super.parseStatement(context, topLevel, exported), { start, startLoc });
  }

  parseExportDefaultDeclaration() {
    this.skipDecorators();
    return super.parseExportDefaultDeclaration();
  }

  shouldParseExportStatement() {
    return this.type === at || super.shouldParseExportStatement();
  }

  parseExprAtom(errors, forInit, forNew) {
    if (this.type === at) {
      this.skipDecorators();
      if (this.type !== tokTypes._class) this.unexpected();
    }
    return super.parseExprAtom(errors, forInit, forNew);
  }

  parseClassElement(allowsSuper) {
    const isDecorated = this.skipDecorators();
    const { start } = this;
    if (/^(?:static\s+)?accessor[ \t]+(?![=;(])\S/.test(this.input.slice(start, start + 1024))) {
      if (!isDecorated) this.bareAccessors.push(start);
      if (this.isContextual("static")) this.next();
      this.next();
    }
    return super.parseClassElement(allowsSuper);
  }
}

/**
 * `{ body, isLowered, bareAccessors }` of a module, or null if it can't be parsed. `isLowered`: only Deno's TypeScript
 * loader makes JavaScript of it, and only once each accessor at `bareAccessors` has a decorator.
 */
export function parseModule(text) {
  try {
    return { body: Parser.parse(text, OPTIONS).body, isLowered: false, bareAccessors: [] };
  } catch {
    if (!/@|\baccessor\b/.test(text)) return null;
  }
  try {
    const parser = new DecoratorParser(OPTIONS, text);
    return { body: parser.parse().body, isLowered: true, bareAccessors: parser.bareAccessors };
  } catch {
    return null;
  }
}
