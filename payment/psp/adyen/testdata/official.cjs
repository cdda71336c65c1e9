// Adyen's own library for Node against the simulator. Its arguments are the folder that
// the library is installed in, the simulator's URL, the key and the webhook to verify.
// It prints what it saw, one line of JSON.
"use strict";
const [, , library, url, hmacKey, webhook] = process.argv;
const adyen = require(require.resolve("@adyen/api-library", { paths: [library] }));

(async () => {
  const client = new adyen.Client({ apiKey: "AQE_test", environment: adyen.EnvironmentEnum.TEST });
  const checkout = new adyen.CheckoutAPI(client);
  const payments = checkout.PaymentsApi, modifications = checkout.ModificationsApi;
  payments.baseUrl = modifications.baseUrl = url;

  const payment = (reference, storedPaymentMethodId) => ({
    amount: { currency: "EUR", value: 1250 }, merchantAccount: "HomewardSimulator", reference,
    returnUrl: "https://shop.example/return", paymentMethod: { type: "scheme", storedPaymentMethodId },
    shopperReference: "shopper_1", shopperInteraction: "ContAuth", recurringProcessingModel: "UnscheduledCardOnFile", captureDelayHours: 0,
  });
  const pay = (key, reference, token) => payments.payments(payment(reference, token), { idempotencyKey: key });

  const saw = {};
  const first = await pay("k1", "ch_1", "card_visa");
  saw.result = first.resultCode;
  saw.amount = `${first.amount.value} ${first.amount.currency}`;
  saw.repeated = (await pay("k1", "ch_1", "card_visa")).pspReference === first.pspReference;
  const refused = await pay("k2", "ch_2", "card_insufficient_funds");
  saw.refused = `${refused.resultCode} ${refused.refusalReasonCode} ${refused.refusalReason}`;
  try {
    await pay("k3", "ch_3", "unheard_of");
  } catch (e) {
    saw.error = `${e.name} ${e.statusCode} ${e.apiError ? e.apiError.errorCode : JSON.parse(e.responseBody).errorCode}`;
  }
  const refund = await modifications.refundCapturedPayment(first.pspReference, {
    amount: { currency: "EUR", value: 250 }, merchantAccount: "HomewardSimulator", reference: "re_1",
  }, { idempotencyKey: "k4" });
  saw.refund = `${refund.status} ${refund.reference} ${refund.paymentPspReference === first.pspReference}`;

  const item = JSON.parse(webhook).notificationItems[0].NotificationRequestItem;
  const validator = new adyen.hmacValidator();
  saw.signed = validator.validateHMAC(item, hmacKey);
  item.amount.value++;
  saw.forged = validator.validateHMAC(item, hmacKey);
  console.log(JSON.stringify(saw));
})().catch((e) => {
  console.error(e);
  process.exit(1);
});
