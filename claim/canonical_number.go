package claim

import (
	"fmt"
	"strconv"
)

// number reads the number that starts at pos.
func (c *canonicaliser) number() *JSONError {
	start := c.pos
	negative := c.in[c.pos] == '-'
	if negative {
		c.pos++
	}
	whole := c.digits()
	switch {
	case len(whole) == 0:
		return c.fail("a digit was expected here")
	case whole[0] == '0' && len(whole) > 1:
		c.pos = start
		return c.refuse("number with a leading zero; remove it")
	}
	if c.pos == len(c.in) || c.in[c.pos] != '.' && c.in[c.pos]|0x20 != 'e' {
		if len(whole) <= plainDigits && whole[0] != '0' { // nearly every number
			c.out = append(c.out, c.in[start:c.pos]...)
			return nil
		}
	}
	var fraction []byte
	if c.pos < len(c.in) && c.in[c.pos] == '.' {
		c.pos++
		if fraction = c.digits(); len(fraction) == 0 {
			return c.fail("a digit was expected after the decimal point")
		}
	}
	var exponent int64
	if c.pos < len(c.in) && c.in[c.pos]|0x20 == 'e' {
		c.pos++
		minus := c.pos < len(c.in) && c.in[c.pos] == '-'
		if minus || c.pos < len(c.in) && c.in[c.pos] == '+' {
			c.pos++
		}
		digits := c.digits()
		if len(digits) == 0 {
			return c.fail("a digit was expected in the exponent")
		}
		for _, d := range digits {
			// Saturate far beyond what zeros in a body of any length could offset.
			exponent = min(exponent*10+int64(d-'0'), 1e12)
		}
		if minus {
			exponent = -exponent
		}
	}

	var all [MaxNumberDigits]byte
	significant, point, ok := significantDigits(all[:0], whole, fraction)
	point += exponent
	switch {
	case !ok:
		c.pos = start
		return c.refuse(fmt.Sprintf("number with more than %d significant digits", MaxNumberDigits))
	case len(significant) == 0:
		c.out = append(c.out, '0') // whatever its sign and exponent
		return nil
	case point-1 > MaxNumberExponent || point-1 < MinNumberExponent:
		c.pos = start
		return c.refuse(fmt.Sprintf("number out of range; its exponent must be from %d to %d", MinNumberExponent, MaxNumberExponent))
	}
	if negative {
		c.out = append(c.out, '-')
	}
	c.out = appendDecimal(c.out, significant, int(point))
	return nil
}

// digits consumes the decimal digits at pos.
func (c *canonicaliser) digits() []byte {
	start := c.pos
	for c.pos < len(c.in) && c.in[c.pos] >= '0' && c.in[c.pos] <= '9' {
		c.pos++
	}
	return c.in[start:c.pos]
}

// significantDigits appends the digits of whole.fraction to dst, without leading and
// trailing zeros. The number is then 0.dst × 10^point. ok is false if the digits exceed
// the capacity of dst.
func significantDigits(dst, whole, fraction []byte) (digits []byte, point int64, ok bool) {
	zeros := 0 // zeros since the last other digit; they count once another digit follows
	for part, text := range [2][]byte{whole, fraction} {
		for _, d := range text {
			switch {
			case part == 0 && (d != '0' || len(dst) > 0):
				point++
			case part == 1 && d == '0' && len(dst) == 0:
				point--
			}
			if d == '0' {
				if len(dst) > 0 {
					zeros++
				}
				continue
			}
			if len(dst)+zeros+1 > cap(dst) {
				return nil, 0, false
			}
			for ; zeros > 0; zeros-- {
				dst = append(dst, '0')
			}
			dst = append(dst, d)
		}
	}
	return dst, point, true
}

// appendDecimal writes 0.digits × 10^point as ECMAScript's Number::toString does.
// digits is not empty and neither starts nor ends with 0.
func appendDecimal(out, digits []byte, point int) []byte {
	switch n := len(digits); {
	case n <= point && point <= plainDigits:
		out = append(out, digits...)
		return appendZeros(out, point-n)
	case 0 < point && point <= plainDigits:
		out = append(append(out, digits[:point]...), '.')
		return append(out, digits[point:]...)
	case plainZeros < point && point <= 0:
		out = appendZeros(append(out, '0', '.'), -point)
		return append(out, digits...)
	}
	out = append(out, digits[0])
	if len(digits) > 1 {
		out = append(append(out, '.'), digits[1:]...)
	}
	out = append(out, 'e')
	if point > 0 {
		out = append(out, '+')
	}
	return strconv.AppendInt(out, int64(point-1), 10)
}

func appendZeros(out []byte, n int) []byte {
	for range n {
		out = append(out, '0')
	}
	return out
}
